//! Acts for tests.

use crate::act::{Claim, Execution, Progress};
use crate::contract::{Contract, Identity, LateSend, LookupBy, Reversal};
use crate::frozen::{Frozen, FrozenValue, Request, Source};
use crate::{Act, ActId, Handoff, Offer, Stage, Timestamp};

/// The seed's payment.
pub const HO: &str = "RW1 HO scheduler-1 from=scheduler to=payer item=inv:MD-2026-057 ask=PAY p=pay rb=exec sup=marlow \
                      amt=5400.00 cur=GBP kind=GROSS acct=40-12-88/61102938 paid=20261002 ref=MD-2026-057 apref=FD-0929";

/// 2026-10-02T12:00:00Z.
pub const NOON: Timestamp = Timestamp(1_790_942_400_000_000);

/// A contract like the bank's.
pub fn a_contract() -> Contract {
    Contract {
        identity: Identity::Window(86_400),
        lookup: LookupBy::NaturalKey,
        settle_window_s: 60,
        late_send: LateSend::Accepted,
        reversal: Reversal::None,
        reversal_until_s: None,
        cut_off: String::new(),
        point_of_no_return: String::new(),
        not_found_means: String::new(),
    }
}

/// What the bank would freeze for [`HO`].
pub fn a_frozen() -> Frozen {
    let values = [
        ("sup", "marlow"),
        ("amt", "5400.00"),
        ("cur", "GBP"),
        ("kind", "GROSS"),
        ("acct", "40-12-88/61102938"),
        ("paid", "20261002"),
        ("ref", "MD-2026-057"),
        ("apref", "FD-0929"),
    ];
    Frozen {
        adapter: "bank".into(),
        values: values
            .into_iter()
            .map(|(slot, value)| FrozenValue {
                slot: slot.into(),
                value: value.into(),
                source: Source::Resolved,
                evidence: String::new(),
            })
            .collect(),
        extra: vec![("x_dbtr".into(), "20-00-00/55779911".into())],
        carried: vec!["sup".into(), "kind".into(), "apref".into()],
        request: Request {
            method: "POST".into(),
            path: "/p".into(),
            body: "{}".into(),
            key: "k".into(),
        },
        placed: Some("consent-1".into()),
        authorise_at: None,
        profile_digest: String::new(),
        contract: a_contract(),
        not_after: NOON.plus_seconds(3600),
    }
}

/// An act as it stands before its first statement.
pub fn an_act() -> Act {
    Act {
        act_id: ActId::new(NOON, [9; 10]),
        version: 0,
        thread: "scheduler".into(),
        handoff: Handoff {
            id: "scheduler-1".into(),
            line: HO.into(),
            sender: "scheduler".into(),
            receiver: "payer".into(),
            item: "inv:MD-2026-057".into(),
            ask: "PAY".into(),
            profile: "pay".into(),
        },
        principal: "scheduler".into(),
        created_at: NOON,
        updated_at: NOON,
        seq: 0,
        head: String::new(),
        lines: 0,
        long_ids: false,
        attempt: 0,
        tokens: Vec::new(),
        limit: NOON.plus_seconds(86_400),
        undo_of: None,
        likeness: None,
        waiting: Vec::new(),
        released_by: None,
        stage: Stage::Lapsed(an_offer(), crate::act::Lapse::Expired),
    }
}

/// A statement of [`HO`], good for five minutes from noon.
pub fn an_offer() -> Offer {
    let statement =
        "RW1 RB payer-101 re=scheduler-1 from=payer to=scheduler item=inv:MD-2026-057 ask=PAY exp=20261002T1205Z p=pay \
         sup=marlow amt=5400.00 cur=GBP kind=GROSS acct=40-12-88/61102938 paid=20261002 ref=MD-2026-057 apref=FD-0929"
            .to_owned();
    Offer {
        attempt: 1,
        rb_id: "payer-101".into(),
        statement_sha256: crate::journal::sha256_hex(statement.as_bytes()),
        statement,
        expires_at: NOON.plus_seconds(300),
        frozen: a_frozen(),
        problems: Vec::new(),
        notes: Vec::new(),
    }
}

/// The confirmation of [`an_offer`].
pub const CONFIRMATION: &str = "RW1 AN scheduler-2 re=payer-101 from=scheduler to=payer p=pay val=Y";

/// The profiles the daemon carries.
pub fn profiles() -> rw1::Profiles {
    rw1::Profiles::builtin()
}

/// An act whose statement waits for its confirmation.
pub fn a_prepared_act() -> Act {
    let mut act = an_act();
    act.lines = 1;
    act.attempt = 1;
    act.version = 1;
    act.stage = Stage::Prepared(an_offer());
    act
}

/// The lines a change brings into the thread, in order.
pub fn thread_lines(change: &crate::Change) -> Vec<String> {
    let of_thread = |e: &&crate::journal::Entry| e.kind == crate::journal::EntryKind::Line;
    change
        .entries
        .iter()
        .filter(of_thread)
        .map(|e| e.body.clone())
        .collect()
}

/// What the thread check says of these lines at `now`, as codes.
pub fn thread_problems<S: AsRef<str>>(lines: &[S], now: Timestamp) -> Vec<String> {
    let checked = rw1::check_thread(&profiles(), None, lines, Some(&now.to_rw1()));
    checked.problems.into_iter().map(|p| p.text).collect()
}

/// A claimed act.
pub fn an_executing_act() -> Act {
    let mut act = an_act();
    act.lines = 1;
    act.attempt = 1;
    act.version = 2;
    act.stage = Stage::Executing(Execution {
        offer: an_offer(),
        confirmation: CONFIRMATION.into(),
        claim: Claim {
            owner: "me".into(),
            epoch: 1,
            claimed_at: NOON.plus_seconds(10),
            deadline: NOON.plus_seconds(40),
            not_after: NOON.plus_seconds(3600),
        },
        progress: Progress {
            maybe_sent: true,
            ..Progress::default()
        },
    });
    act
}
