//! Acts of a plausible size and shape, made from a number: payments of one thread, at any stage.

use wilco_core::act::{Lapse, Progress, TokenRecord};
use wilco_core::contract::{Identity, LateSend, LookupBy, Reversal};
use wilco_core::frozen::{FrozenValue, Request, Source};
use wilco_core::journal::{Entry, OURSELVES, sha256_hex};
use wilco_core::{
    Act, ActId, Change, Claim, Closed, Contract, Execution, Expect, Frozen, Handoff, Offer, Stage, Timestamp,
    Verdict, Written,
};

use crate::{Keeper, StoreError};

/// The thread sample acts stand in unless told otherwise.
pub const THREAD: &str = "august-run";

/// The id of the sample act `n`; later numbers sort later.
#[must_use]
pub fn id(n: u64) -> ActId {
    let mut random = [0x5a; 10];
    random[2..].copy_from_slice(&n.to_be_bytes());
    ActId::new(
        Timestamp(i64::try_from(n).unwrap_or(0).saturating_mul(1_000)),
        random,
    )
}

/// A payment, stated and waiting for its confirmation, not yet in any store.
#[must_use]
pub fn prepared(n: u64, at: Timestamp) -> Act {
    let handoff_id = format!("scheduler-{n}");
    let line = format!(
        "RW1 k=HO id={handoff_id} from=scheduler to=payer p=pay ask=PAY item=inv-{n} sup=marlow amt=1250.00 cur=EUR \
         acct=GB29NWBK60161331926819 paid=20261002 kind=INV rb=exec exp=20261002T1800Z | August delivery, as agreed"
    );
    Act {
        act_id: id(n),
        version: 0,
        thread: THREAD.to_owned(),
        handoff: Handoff {
            id: handoff_id,
            line,
            sender: "scheduler".to_owned(),
            receiver: "payer".to_owned(),
            item: format!("inv-{n}"),
            ask: "PAY".to_owned(),
            profile: "pay".to_owned(),
        },
        principal: "scheduler".to_owned(),
        created_at: at,
        updated_at: at,
        seq: 0,
        head: String::new(),
        lines: 1,
        long_ids: false,
        attempt: 1,
        tokens: vec![TokenRecord {
            attempt: 1,
            hash: sha256_hex(&n.to_be_bytes()),
            key_id: "k1".to_owned(),
        }],
        limit: at.plus_seconds(86_400),
        undo_of: None,
        likeness: Some(sha256_hex(format!("inv-{n}/marlow/1250.00/EUR").as_bytes())),
        waiting: Vec::new(),
        released_by: None,
        stage: Stage::Prepared(offer(n, at)),
    }
}

/// The statement of the sample act `n`, live for a quarter of an hour.
#[must_use]
pub fn offer(n: u64, at: Timestamp) -> Offer {
    let statement = format!(
        "RW1 k=RB id=payer-{n}01 from=payer to=scheduler re=scheduler-{n} p=pay do=PAY item=inv-{n} sup=marlow \
         amt=1250.00 cur=EUR acct=GB29NWBK60161331926819 paid=20261002 kind=INV apref={} h=5d41402abc4b2a76 \
         exp=20261002T1430Z x_dbtr=GB94BARC10201530093459",
        id(n)
    );
    let value = |slot: &str, value: String, source, evidence: &str| FrozenValue {
        slot: slot.to_owned(),
        value,
        source,
        evidence: evidence.to_owned(),
    };
    let register = "payee register, entry marlow";
    let account = "GB29NWBK60161331926819".to_owned();
    Offer {
        attempt: 1,
        rb_id: format!("payer-{n}01"),
        statement_sha256: sha256_hex(statement.as_bytes()),
        statement,
        expires_at: at.plus_seconds(900),
        frozen: Frozen {
            adapter: "bank".to_owned(),
            values: vec![
                value("item", format!("inv-{n}"), Source::Handoff, ""),
                value("sup", "marlow".to_owned(), Source::Resolved, register),
                value("amt", "1250.00".to_owned(), Source::Handoff, ""),
                value("cur", "EUR".to_owned(), Source::Handoff, ""),
                value("acct", account, Source::Resolved, register),
            ],
            extra: vec![("x_dbtr".to_owned(), "GB94BARC10201530093459".to_owned())],
            carried: vec!["sup".to_owned(), "kind".to_owned()],
            request: Request {
                method: "POST".to_owned(),
                path: "/domestic-payments".to_owned(),
                body: format!(
                    "{{\"Data\":{{\"ConsentId\":\"c-{n}\",\"Initiation\":{{\"InstructionIdentification\":\"{}\",\
                     \"EndToEndIdentification\":\"inv-{n}\",\"InstructedAmount\":{{\"Amount\":\"1250.00\",\
                     \"Currency\":\"EUR\"}},\"CreditorAccount\":{{\"SchemeName\":\"UK.OBIE.IBAN\",\
                     \"Identification\":\"GB29NWBK60161331926819\",\"Name\":\"Marlow\"}}}}}}}}",
                    id(n)
                ),
                key: id(n).to_string(),
            },
            placed: Some(format!("c-{n}")),
            authorise_at: None,
            profile_digest: sha256_hex(b"pay"),
            contract: Contract {
                identity: Identity::Window(86_400),
                lookup: LookupBy::Reference,
                settle_window_s: 30,
                late_send: LateSend::RefusedAfter(3_600),
                reversal: Reversal::NewAct,
                reversal_until_s: None,
                cut_off: String::new(),
                point_of_no_return: "the request line".to_owned(),
                not_found_means: "the bank has no such payment".to_owned(),
            },
            not_after: at.plus_seconds(3_600),
        },
        problems: Vec::new(),
        notes: vec!["sup and kind are carried from the handoff".to_owned()],
    }
}

/// The act once its statement ran out.
#[must_use]
pub fn lapsed(mut act: Act) -> Act {
    if let Some(offer) = act.offer().cloned() {
        act.stage = Stage::Lapsed(offer, Lapse::Expired);
    }
    act
}

/// The act once it is claimed at `at`. An act without a statement stays as it is.
#[must_use]
pub fn claimed(mut act: Act, at: Timestamp) -> Act {
    if let Some(offer) = act.offer().cloned() {
        act.stage = Stage::Executing(Execution {
            confirmation: format!(
                "RW1 k=AN id=scheduler-9 from=scheduler to=payer re={} val=Y",
                offer.rb_id
            ),
            offer,
            claim: Claim {
                owner: "a-daemon".to_owned(),
                epoch: 1,
                claimed_at: at,
                deadline: at.plus_seconds(30),
                not_after: at.plus_seconds(3_600),
            },
            progress: Progress {
                maybe_sent: true,
                next_at: at.plus_seconds(30),
                ..Progress::default()
            },
        });
    }
    act
}

/// The act once it is done at `at`.
#[must_use]
pub fn done(mut act: Act, at: Timestamp) -> Act {
    let line = format!(
        "RW1 k=DN id=payer-02-{} from=payer to=scheduler re={} amt=1250.00 cur=EUR",
        act.act_id, act.handoff.id
    );
    act.undo_of = None;
    act.stage = Stage::Done(Closed {
        line_id: format!("payer-02-{}", act.act_id),
        line,
        closed_at: at,
        offer: act.offer().cloned(),
        claim: act.execution().map(|e| e.claim.clone()),
        verdict: Some(Verdict::Match),
        problems: Vec::new(),
        notes: Vec::new(),
        receipt: Some("dp-1".to_owned()),
        superseded: false,
        erased: None,
        audit: None,
        refused_there: false,
    });
    act
}

/// A new act with its HO and RB lines.
#[must_use]
pub fn insert(act: Act) -> Change {
    let mut entries = vec![Entry::line(&act.handoff.id, &act.handoff.line, &act.principal)];
    if let Some(offer) = act.offer() {
        entries.push(Entry::line(&offer.rb_id, &offer.statement, OURSELVES));
    }
    Change {
        unless_twin: None,
        expect: Expect::Absent,
        act,
        entries,
    }
}

/// A change of an act as it stands.
#[must_use]
pub fn update(act: Act, entries: Vec<Entry>) -> Change {
    Change {
        unless_twin: None,
        expect: Expect::Version(act.version),
        act,
        entries,
    }
}

/// One whole life: insert, claim, done, each durable before the next. The unit of the store's benchmarks.
///
/// # Errors
/// What the keeper answers, and `Down` where a write does not advance.
pub async fn cycle(keeper: &dyn Keeper, n: u64) -> Result<(), StoreError> {
    let act = one(keeper
        .write(Box::new(move |at| vec![insert(prepared(n, at))]))
        .await)?;
    let act = one(keeper
        .write(Box::new(move |at| {
            let confirmation = Entry::line(format!("scheduler-c{n}"), "RW1 k=AN val=Y", "scheduler");
            vec![update(claimed(act.clone(), at), vec![confirmation])]
        }))
        .await)?;
    one(keeper
        .write(Box::new(move |at| {
            let act = done(act.clone(), at);
            let closed = act.closed().map(|c| Entry::line(&c.line_id, &c.line, OURSELVES));
            let seen = Entry::event("executed", serde_json::json!({ "receipt": "dp-1" }), OURSELVES);
            let entries = closed.into_iter().chain([seen]).collect();
            vec![update(act, entries)]
        }))
        .await)?;
    Ok(())
}

/// The first act of a write that must have advanced.
///
/// # Errors
/// What the keeper answered, and `Down` where the write was refused.
pub fn one(written: Result<Written, StoreError>) -> Result<Act, StoreError> {
    match written? {
        Written::Advanced { acts, .. } => acts
            .into_iter()
            .next()
            .ok_or_else(|| StoreError::Down("no act was written".to_owned())),
        other => Err(StoreError::Down(format!("the write was refused: {other:?}"))),
    }
}
