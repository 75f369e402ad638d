//! The judge: everything anybody was told, against the bank's own book.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use wilco_api::v1::{self, State};
use wilco_tests::{Book, Caller, Daemon, Wire};

use crate::desk::{Desk, Told};
use crate::tally::{Broken, Tally};

/// Judges a house in which nothing is open any more.
pub async fn judge(name: &str, daemon: &Daemon, desk: &Desk, tally: &Tally) {
    let book = daemon.bank().book().await;
    let duty = daemon.caller("duty", Wire::Grpc);
    let acts = every_act(&duty).await;
    let told = desk.handoffs();
    let broke = |what: Broken| tally.broke(name, what);
    tally.ended(told.len(), book.payments().len());
    for act in &acts {
        tally.state(act.state().as_str_name());
    }

    payments_have_owners(&book, &acts, &broke);
    let mut seen = BTreeSet::new();
    for told in &told {
        let id = told.payment.id();
        let found: Vec<&v1::Act> = acts
            .iter()
            .filter(|a| a.thread == told.thread && a.handoff_id == id)
            .collect();
        match found.as_slice() {
            [act] => {
                seen.insert(act.act_id.clone());
                if !agrees(told, act, &book, &broke) {
                    tell_story(name, &duty, act, &book).await;
                }
            }
            [] => broke(Broken::Lost(format!("{told:?} has no act"))),
            more => broke(Broken::Double(format!("{id} has {} acts", more.len()))),
        }
    }
    for act in acts.iter().filter(|a| !seen.contains(&a.act_id)) {
        broke(Broken::Other(format!("an act nobody handed off: {act:?}")));
    }
    let scheduler = daemon.caller("scheduler", Wire::Grpc);
    let threads: BTreeSet<&String> = told.iter().map(|t| &t.thread).collect();
    for thread in threads {
        thread_passes(&scheduler, thread, &broke).await;
    }
    sums_agree(&duty, &acts, &book, &broke).await;
}

/// Judges again after texts were erased: what was closed is known, and nothing more was paid.
pub async fn still_so(name: &str, daemon: &Daemon, desk: &Desk, tally: &Tally) {
    let broke = |what: Broken| tally.broke(name, what);
    let book = daemon.bank().book().await;
    let duty = daemon.caller("duty", Wire::Grpc);
    let scheduler = daemon.caller("scheduler", Wire::Json);
    payments_have_owners(&book, &every_act(&duty).await, &broke);
    let before = book.payments().len();
    for told in desk.handoffs() {
        if told.close.is_none() {
            continue;
        }
        let again = scheduler.prepare_in(&told.thread, &told.payment.ho()).await;
        if let Ok(reply) = again
            && reply.reply.starts_with("RW1 RB ")
        {
            broke(Broken::Other(format!(
                "{told:?} was stated again after it was erased: {}",
                reply.reply
            )));
        }
    }
    let after = daemon.bank().book().await.payments().len();
    if after != before {
        broke(Broken::Double(format!(
            "{before} payments became {after} by asking for what was erased"
        )));
    }
}

/// Every payment belongs to one act, which says that it was done.
fn payments_have_owners(book: &Book, acts: &[v1::Act], broke: &impl Fn(Broken)) {
    let mut by_reference: BTreeMap<String, u32> = BTreeMap::new();
    let mut by_instruction: BTreeMap<String, u32> = BTreeMap::new();
    for payment in moved(book) {
        *by_reference.entry(text(&payment, "reference")).or_default() += 1;
        let instruction = text(&payment, "instruction_id");
        *by_instruction.entry(instruction.clone()).or_default() += 1;
        // The act's own id is the reference the bank was given; it stays when the texts are erased.
        match acts.iter().find(|a| a.act_id == instruction) {
            None => broke(Broken::Lost(format!(
                "nobody answers for this payment: {payment}"
            ))),
            Some(act) if act.state() != State::Done => {
                broke(Broken::Lost(format!(
                    "paid, and yet {:?}: {payment}: `{}`",
                    act.state(),
                    act.close
                )));
            }
            Some(_) => {}
        }
    }
    for (what, n) in by_reference
        .iter()
        .chain(&by_instruction)
        .filter(|(_, n)| **n > 1)
    {
        broke(Broken::Double(format!("{what} was paid {n} times")));
    }
}

/// What the caller was told, what the daemon says now, and what the book holds are one story.
fn agrees(told: &Told, act: &v1::Act, book: &Book, broke: &impl Fn(Broken)) -> bool {
    let paid: Vec<Value> = moved(book)
        .into_iter()
        .filter(|p| text(p, "instruction_id") == act.act_id)
        .collect();
    let agreed = Cell::new(true);
    let lost = |what: &str| {
        agreed.set(false);
        broke(Broken::Lost(format!(
            "{what}: {} in {}, told {:?}, accepted {}, {:?} {} with `{}`, book {paid:?}",
            told.payment.id(),
            told.thread,
            told.close,
            told.accepted,
            act.state(),
            act.verdict,
            act.close
        )));
    };
    match act.state() {
        State::Done => {
            let [payment] = paid.as_slice() else {
                lost("done, and not one payment in the book");
                return false;
            };
            let as_stated = text(payment, "amount") == told.payment.amt
                && text(payment, "creditor_account") == told.payment.acct;
            if (act.verdict == "match") != as_stated {
                lost("the verdict is not what the book shows");
            }
            if act.verdict == "contradicted" {
                lost("a close was contradicted");
            }
            if !act.close.contains(&format!(" amt={} ", text(payment, "amount"))) {
                lost("the DN does not report what ran");
            }
        }
        State::Failed | State::Cancelled | State::Refused => {
            if !paid.is_empty() {
                lost("closed as not done, and paid");
            }
            if act.verdict == "contradicted" {
                lost("a close was contradicted");
            }
        }
        State::Prepared | State::Held | State::Lapsed => {
            if !paid.is_empty() || told.accepted || told.close.is_some() {
                lost("open, and yet confirmed, closed or paid");
            }
        }
        State::Executing | State::InDoubt | State::Unspecified => lost("without an end"),
    }
    if let Some(close) = &told.close {
        // A tombstone's caller has the cancel's AN or the handoff's UN; the act keeps one of them.
        let acknowledged = close.starts_with("RW1 AN ") && act.state() == State::Refused;
        if *close != act.close && !acknowledged {
            lost("its close is not the one that was told");
        }
    }
    agreed.get()
}

/// What happened to an act, for whoever has to find out why.
async fn tell_story(name: &str, duty: &Caller, act: &v1::Act, book: &Book) {
    let Ok(reply) = duty.act(&act.act_id).await else {
        return;
    };
    for entry in reply.journal {
        eprintln!(
            "{name}: {} {} {} {}",
            act.act_id, entry.at, entry.kind, entry.body
        );
    }
    for payment in book.payments() {
        if text(&payment, "instruction_id") == act.act_id {
            eprintln!("{name}: in the book: {payment}");
        }
    }
}

async fn thread_passes(caller: &Caller, thread: &str, broke: &impl Fn(Broken)) {
    match caller.thread(thread).await {
        Ok(view) => {
            let checked = rw1::check_thread(&rw1::Profiles::builtin(), None, &view.lines, None);
            if !view.problems.is_empty() || !checked.problems.is_empty() {
                broke(Broken::Other(format!(
                    "{thread} does not pass: {:?} {:?}\n{}",
                    view.problems,
                    checked.problems,
                    view.lines.join("\n")
                )));
            }
        }
        Err(refused) => broke(Broken::Lost(format!("{thread} cannot be read: {refused:?}"))),
    }
}

/// The figures operators see count what is there, and the money that left is the money of what was done.
async fn sums_agree(duty: &Caller, acts: &[v1::Act], book: &Book, broke: &impl Fn(Broken)) {
    let page = duty.read("/metrics").await.text;
    for (word, state) in [
        ("prepared", State::Prepared),
        ("lapsed", State::Lapsed),
        ("done", State::Done),
        ("failed", State::Failed),
        ("cancelled", State::Cancelled),
        ("refused", State::Refused),
        ("executing", State::Executing),
        ("in_doubt", State::InDoubt),
    ] {
        let line = format!("wilco_acts{{state=\"{word}\"}} ");
        let counted = page
            .lines()
            .find_map(|l| l.strip_prefix(&line)?.parse::<usize>().ok());
        let listed = acts.iter().filter(|a| a.state() == state).count();
        if counted != Some(listed) {
            broke(Broken::Other(format!(
                "{word}: {counted:?} counted, {listed} listed"
            )));
        }
    }
    let done: i128 = acts
        .iter()
        .filter(|a| a.state() == State::Done)
        .map(|a| pence(wilco_tests::lines::slot(&a.close, "amt")))
        .sum();
    if done != book.spent() {
        broke(Broken::Other(format!(
            "{done} pence done, {} pence gone",
            book.spent()
        )));
    }
}

/// Every act, page by page.
async fn every_act(duty: &Caller) -> Vec<v1::Act> {
    let mut acts = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListActsRequest {
            page_token,
            page_size: 500,
            ..v1::ListActsRequest::default()
        };
        let page = duty
            .list_acts(request)
            .await
            .unwrap_or_else(|refused| panic!("acts cannot be listed: {refused:?}"));
        acts.extend(page.acts);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return acts;
        }
    }
}

/// The payments that moved money: one the bank rejected did not.
fn moved(book: &Book) -> Vec<Value> {
    let mut payments = book.payments();
    payments.retain(|p| p["status"] != "Rejected");
    payments
}

fn text(payment: &Value, field: &str) -> String {
    payment[field].as_str().unwrap_or_default().to_owned()
}

fn pence(amount: &str) -> i128 {
    amount.replace('.', "").parse().unwrap_or(i128::MIN / 4)
}
