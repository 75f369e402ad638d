//! The payment every part of the bench uses: the RW1 specification's own example.

use serde_json::{Map, Value, json};

/// The handoff.
pub const HO: &str = "RW1 HO scheduler-1 from=scheduler to=payer item=inv:MD-2026-057 ask=PAY p=pay rb=exec sup=marlow \
                      amt=5400.00 cur=GBP kind=GROSS acct=40-12-88/61102938 paid=20261002 ref=MD-2026-057 apref=FD-0929";

/// The tool's statement.
pub const RB: &str = "RW1 RB payer-1 re=scheduler-1 from=payer to=scheduler item=inv:MD-2026-057 ask=PAY p=pay \
                      h=a7a82de76607 sup=marlow amt=5400.00 cur=GBP kind=GROSS acct=40-12-88/61102938 paid=20261002 \
                      ref=MD-2026-057 apref=FD-0929";

/// The done report.
pub const DN: &str = "RW1 DN payer-2 re=scheduler-1 p=pay from=payer to=scheduler item=inv:MD-2026-057 out=OK sup=marlow \
                      amt=5400.00 cur=GBP kind=GROSS acct=40-12-88/61102938 paid=20261002 ref=MD-2026-057 apref=FD-0929 \
                      // as executed, from the payment tool";

/// The profile they are written in.
pub const PROFILE: &str = "pay";

/// The approved record behind the handoff.
pub fn record() -> Map<String, Value> {
    let record = json!({
        "to": "payer", "item": "inv:MD-2026-057", "ask": "PAY", "sup": "marlow", "amt": "5400.00", "cur": "GBP",
        "kind": "GROSS", "acct": "40-12-88/61102938", "paid": "20261002", "ref": "MD-2026-057", "apref": "FD-0929",
    });
    match record {
        Value::Object(record) => record,
        _ => Map::new(),
    }
}

/// A handoff of its own, for the `id`th message in a thread; ids have seven digits, so that every line is equally long. Its
/// item is like no other thread's, or it would be held as a likely twin.
pub fn handoff(thread: &str, id: u64, paid: &str) -> String {
    format!(
        "RW1 HO scheduler-{id} from=scheduler to=payer item=inv:{thread}-{id} ask=PAY p=pay rb=exec sup=marlow amt=5400.00 \
         cur=GBP kind=GROSS acct=40-12-88/61102938 paid={paid} ref=MD-{id} apref=FD-0929"
    )
}

/// The sender's yes to a statement.
pub fn confirmation(id: u64, rb_id: &str) -> String {
    format!("RW1 AN scheduler-{id} re={rb_id} p=pay from=scheduler to=payer val=Y")
}

/// The first message id of a caller.
pub const FIRST_ID: u64 = 1_000_001;
