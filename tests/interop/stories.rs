//! Good conversations, from which the random questions depart.

use serde_json::{Value, json};

/// Conversations of ours: an act in each profile, as it goes when all goes well.
pub fn own_stories() -> Vec<Value> {
    let ho = "RW1 HO scheduler-1 from=scheduler to=payer item=inv:MD-2026-057 ask=PAY p=pay rb=exec due=20261009 \
              exp=20261002T1200Z sup=marlow amt=5400.00 cur=GBP kind=GROSS acct=40-12-88/61102938 paid=20261002 ref=MD-2026-057 apref=FD-0929";
    let open = ho
        .replace(" acct=40-12-88/61102938", "")
        .replace(" exp=20261002T1200Z", "");
    let rb = "RW1 RB payer-101 re=scheduler-1 from=payer to=scheduler item=inv:MD-2026-057 ask=PAY p=pay due=20261009 \
              exp=20261002T1100Z sup=marlow amt=5400.00 cur=GBP kind=GROSS acct=40-12-88/61102938 paid=20261002 ref=MD-2026-057 apref=FD-0929";
    let dn = "RW1 DN payer-102 re=scheduler-1 from=payer to=scheduler item=inv:MD-2026-057 out=OK p=pay sup=marlow \
              amt=5400.00 cur=GBP kind=GROSS acct=40-12-88/61102938 paid=20261002 ref=MD-2026-057 apref=FD-0929";
    let yes = "RW1 AN scheduler-2 re=payer-101 from=scheduler to=payer val=Y p=pay";
    let cx =
        "RW1 CX scheduler-3 re=scheduler-1 from=scheduler to=payer item=inv:MD-2026-057 why=REVOKED p=pay";
    let ack = "RW1 AN payer-103 re=scheduler-3 from=payer to=scheduler val=Y p=pay // abandoned";
    let record = json!({
        "to": "payer", "item": "inv:MD-2026-057", "ask": "PAY", "sup": "marlow", "amt": "5400.00", "cur": "GBP",
        "kind": "GROSS", "acct": "40-12-88/61102938", "paid": "20261002", "ref": "MD-2026-057", "apref": "FD-0929",
    });
    let brief = "RW1 HO lead-1 from=lead to=writer item=doc:7 ask=DRAFT rb=plan keys=len+lang+must+no pri=2 keep=editor";
    let plan = "RW1 RB writer-1 re=lead-1 from=writer to=lead item=doc:7 ask=DRAFT acc=len:120w+lang:uk+must:risk-note+no:em-dash \
                do=copy not=images asm=print";
    let bank = "RW1 HO auditor-4 from=auditor to=payer item=sup:marlow ask=CHGBANK p=pay rb=exec+item sup=marlow \
                acct=40-12-88/61102938 eff=20261005 apref=FD-0930 prev=40-12-88/61102911";
    let bank_rb = "RW1 RB payer-401 re=auditor-4 from=payer to=auditor item=sup:marlow ask=CHGBANK p=pay sup=marlow \
                   acct=40-12-88/61102938 eff=20261005 apref=FD-0930 prev=40-12-88/61102911";
    let now = "20261001T1200Z";
    let criteria = json!(["len:120w", "lang:uk", "must:risk-note", "no:em-dash"]);
    vec![
        json!({ "f": "check-ho", "profile": "pay", "ho": ho, "record": record }),
        json!({ "f": "check-ho", "profile": "pay", "ho": open, "record": record }),
        json!({ "f": "check-rb", "profile": "pay", "ho": ho, "rb": rb, "now": now }),
        json!({ "f": "check-rb", "profile": "pay", "ho": open, "rb": rb, "now": now }),
        json!({ "f": "check-rb", "profile": "pay", "ho": bank, "rb": bank_rb, "now": now }),
        json!({ "f": "check-rb", "ho": brief, "rb": plan, "now": now, "expect_acc": criteria }),
        json!({ "f": "check-rb", "ho": format!("{brief} acc=len:120w+tone:plain"), "rb": plan, "now": now }),
        json!({ "f": "check-dn", "profile": "pay", "ho": ho, "dn": dn }),
        json!({ "f": "check-dn", "profile": "pay", "ho": open, "dn": dn, "rb": rb }),
        json!({ "f": "check-dn", "profile": "pay", "ho": ho, "dn": dn, "rb": rb }),
        json!({ "f": "check-thread", "profile": "pay", "lines": [ho, rb, yes, dn], "now": now }),
        json!({ "f": "check-thread", "profile": "pay", "lines": [ho, rb, cx, ack], "now": now }),
        json!({ "f": "check-thread", "profile": "pay", "lines": [ho, rb, yes, dn, cx], "now": now }),
        json!({ "f": "check-thread", "profile": "pay", "lines": [ho, rb, yes, dn, bank, bank_rb], "now": "20261005T0000Z" }),
        json!({ "f": "check-thread", "profile": "pay", "lines": [ho, rb], "now": "20261010T0000Z" }),
    ]
}
