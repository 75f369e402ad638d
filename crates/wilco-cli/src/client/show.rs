//! Answers as text for people.

use rw1::Profiles;
use wilco_api::convert::state_word;
use wilco_api::v1::{self, Act, State};

use super::table::{columns, duration, pairs, plain, seconds_until};

/// A prepare's answer: the line first, then what it means and what comes next.
pub fn prepared(reply: &v1::PrepareReply, now: i64) -> String {
    let mut parts = vec![plain(&reply.reply)];
    if let Some(act) = &reply.act {
        parts.push(pairs(&[
            ("state", state_and_time(act, now)),
            ("waits for", act.waits_for.clone()),
            ("authorise at", act.authorise_at.clone()),
            ("guarantee", act.guarantee.clone()),
            ("act", act.act_id.clone()),
            ("statement", reply.statement.clone()),
            ("sha256", reply.statement_sha256.clone()),
            ("token", reply.token.clone()),
            (
                "replayed",
                if reply.replayed {
                    "yes".to_owned()
                } else {
                    String::new()
                },
            ),
        ]));
        if !act.values.is_empty() {
            parts.push(values(act));
        }
    }
    parts.extend(list_of("problem", &texts(&reply.problems)));
    parts.extend(list_of("note", &reply.notes));
    parts.join("\n\n")
}

/// A commit's answer.
pub fn committed(reply: &v1::CommitReply) -> String {
    let mut parts = Vec::new();
    if !reply.reply.is_empty() {
        parts.push(plain(&reply.reply));
    }
    if let Some(act) = &reply.act {
        parts.push(ending(act));
        if reply.reply.is_empty() && matches!(act.state(), State::Executing | State::InDoubt) {
            parts.push(
                "there is no report yet; ask again with the same command: it is executed once".to_owned(),
            );
        }
    }
    parts.extend(list_of("problem", &texts(&reply.problems)));
    parts.extend(list_of("note", &reply.notes));
    parts.join("\n\n")
}

/// A cancel's answer.
pub fn cancelled(reply: &v1::CancelReply) -> String {
    let mut parts = Vec::new();
    if !reply.reply.is_empty() {
        parts.push(plain(&reply.reply));
    }
    if let Some(act) = &reply.act {
        parts.push(ending(act));
        if reply.reply.is_empty() {
            parts.push("whether it was done is not known yet; ask again with the same command".to_owned());
        }
    }
    parts.extend(list_of("note", &reply.notes));
    parts.join("\n\n")
}

/// A release's answer.
pub fn released(reply: &v1::ReleaseReply, now: i64) -> String {
    let mut parts = Vec::new();
    if let Some(act) = &reply.act {
        parts.push(pairs(&[
            ("state", state_and_time(act, now)),
            ("released by", act.released_by.clone()),
            ("waits for", act.waits_for.clone()),
            ("statement", act.statement.clone()),
            ("act", act.act_id.clone()),
        ]));
        parts.extend(list_of("problem", &texts(&act.problems)));
    }
    parts.extend(list_of("note", &reply.notes));
    parts.join("\n\n")
}

/// Acts, one a row.
pub fn list(found: &v1::ListActsReply, now: i64, nothing: &str) -> String {
    if found.acts.is_empty() {
        return nothing.to_owned();
    }
    let profiles = Profiles::builtin();
    let row = |act: &Act| {
        vec![
            state_of(act),
            left(act, now),
            slots(&profiles, act, &["amt", "cur"], " "),
            slots(&profiles, act, &["sup", "acct"], " "),
            act.item.clone(),
            act.ask.clone(),
            act.waits_for.clone(),
            act.thread.clone(),
            act.handoff_id.clone(),
            act.act_id.clone(),
        ]
    };
    let head = [
        "STATE",
        "LEFT",
        "AMOUNT",
        "PAYEE",
        "ITEM",
        "ASK",
        "WAITS FOR",
        "THREAD",
        "HANDOFF",
        "ACT",
    ];
    let rows: Vec<Vec<String>> = found.acts.iter().map(row).collect();
    let mut text = columns(&head, &rows);
    if !found.next_page_token.is_empty() {
        text.push_str(&format!(
            "\nthere are more than {}: --limit shows them",
            rows.len()
        ));
    }
    text
}

/// One act, whole.
pub fn one(reply: &v1::GetActReply, now: i64) -> String {
    let Some(act) = &reply.act else {
        return "the daemon gave no act".to_owned();
    };
    let mut parts = vec![pairs(&[
        ("act", act.act_id.clone()),
        ("state", state_and_time(act, now)),
        ("waits for", act.waits_for.clone()),
        ("likely twin", act.twins.join(" ")),
        ("released by", act.released_by.clone()),
        (
            "doubt",
            match reply.doubt {
                None => act.doubt.clone(),
                Some(_) => String::new(),
            },
        ),
        ("verdict", act.verdict.clone()),
        ("authorise at", act.authorise_at.clone()),
        ("thread", act.thread.clone()),
        ("handoff", act.handoff_id.clone()),
        ("brought by", act.principal.clone()),
        ("from, to", format!("{}, {}", act.sender, act.receiver)),
        ("item", act.item.clone()),
        ("ask", act.ask.clone()),
        ("profile", act.profile.clone()),
        ("adapter", act.adapter.clone()),
        ("guarantee", act.guarantee.clone()),
        ("reference", act.reference.clone()),
        ("receipt", act.receipt.clone()),
        ("attempt", act.attempt.to_string()),
        ("created", act.created_at.clone()),
        ("updated", act.updated_at.clone()),
        ("statement until", while_open(act, &act.expires_at)),
        ("open until", while_open(act, &act.ends_at)),
    ])];
    parts.extend(reply.doubt.as_ref().map(|d| doubt(d, now)));
    let lines = [
        ("HO", &act.ho),
        ("stated", &act.statement),
        ("sha256", &act.statement_sha256),
        ("closed", &act.close),
    ];
    parts.push(pairs(&lines.map(|(name, line)| (name, line.clone()))));
    if !act.values.is_empty() {
        parts.push(values(act));
    }
    parts.extend(list_of("problem", &texts(&act.problems)));
    parts.extend(list_of("note", &act.notes));
    if !reply.timeline.is_empty() {
        let row = |m: &v1::Moment| vec![m.at.clone(), m.what.clone(), m.text.clone()];
        parts.push(columns(
            &["AT", "WHAT", "PARTICULARS"],
            &reply.timeline.iter().map(row).collect::<Vec<_>>(),
        ));
    }
    if !reply.journal.is_empty() {
        let row = |h: &v1::Happening| vec![h.at.clone(), h.kind.clone(), h.principal.clone(), h.body.clone()];
        parts.push(columns(
            &["AT", "KIND", "BY", "WHAT"],
            &reply.journal.iter().map(row).collect::<Vec<_>>(),
        ));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

/// What is known of an act in doubt, and who can end it when.
fn doubt(doubt: &v1::Doubt, now: i64) -> String {
    let until = |instant: &str| match seconds_until(instant, now) {
        Some(left) if left > 0 => format!("{instant} (in {})", duration(left)),
        _ => instant.to_owned(),
    };
    let said = |instant: &str, words: &str| match instant {
        "" => words.to_owned(),
        instant => format!("{}: {words}", until(instant)),
    };
    pairs(&[
        ("in doubt because", doubt.why.clone()),
        (
            "bytes may have left",
            if doubt.maybe_sent { "yes" } else { "no" }.to_owned(),
        ),
        (
            "held by",
            format!("{}, epoch {}: {}", doubt.owner, doubt.epoch, doubt.owner_fate),
        ),
        ("may still be calling", doubt.open_calls.join(" ")),
        ("claimed", doubt.claimed_at.clone()),
        ("should have ended", doubt.deadline.clone()),
        ("never sent from", doubt.not_after.clone()),
        (
            "looked up",
            format!("{}, next {}", times(doubt.lookups), until(&doubt.next_look_at)),
        ),
        (
            "sent again",
            match doubt.resends {
                0 => String::new(),
                n => format!("{}, the same bytes", times(n)),
            },
        ),
        ("wilco decides", said(&doubt.decides_from, &doubt.decides)),
        ("a person settles", said(&doubt.settles_from, &doubt.settles)),
        (
            "a person was called",
            if doubt.escalated {
                "yes: look at the counterparty, then wilco settle ACT".to_owned()
            } else {
                String::new()
            },
        ),
    ])
}

fn times(n: u32) -> String {
    match n {
        0 => "not yet".to_owned(),
        1 => "once".to_owned(),
        n => format!("{n} times"),
    }
}

/// A thread: its lines as they are, then what the check says.
pub fn thread(whole: &v1::GetThreadReply) -> String {
    let shown = |line: &String| {
        if line.is_empty() {
            "(erased)".to_owned()
        } else {
            plain(line)
        }
    };
    let mut text: Vec<String> = whole.lines.iter().map(shown).collect();
    if text.is_empty() {
        text.push("there is no line in this thread".to_owned());
    }
    let found = |name: &str, problems: &[v1::Problem]| {
        problems
            .iter()
            .map(|p| format!("{name}: {}", plain(&p.text)))
            .collect::<Vec<_>>()
    };
    let (problems, notes) = (found("problem", &whole.problems), found("note", &whole.notes));
    if !problems.is_empty() || !notes.is_empty() {
        text.push(String::new());
        text.extend(problems);
        text.extend(notes);
    }
    text.join("\n")
}

fn ending(act: &Act) -> String {
    pairs(&[
        ("state", state_of(act)),
        ("verdict", act.verdict.clone()),
        ("waits for", act.waits_for.clone()),
        ("doubt", act.doubt.clone()),
        ("receipt", act.receipt.clone()),
        ("act", act.act_id.clone()),
    ])
}

fn values(act: &Act) -> String {
    let row = |value: &v1::FrozenValue| {
        let carried = if act.carried.contains(&value.slot) {
            " (carried from the statement)"
        } else {
            ""
        };
        vec![
            value.slot.clone(),
            value.value.clone(),
            value.source.clone(),
            format!("{}{carried}", value.evidence),
        ]
    };
    columns(
        &["SLOT", "VALUE", "SOURCE", "EVIDENCE"],
        &act.values.iter().map(row).collect::<Vec<_>>(),
    )
}

fn state_of(act: &Act) -> String {
    match (act.state(), act.verdict.as_str()) {
        (State::Done, "mismatch") => "done, mismatch".to_owned(),
        (State::Held, _) if !act.twins.is_empty() => "held, likely twin".to_owned(),
        (state, "contradicted") => format!("{}, contradicted", state_word(state)),
        (state, _) => state_word(state).to_owned(),
    }
}

fn state_and_time(act: &Act, now: i64) -> String {
    match left(act, now).as_str() {
        "" => state_of(act),
        left => format!("{}, {left} left", state_of(act)),
    }
}

/// A limit that no longer means anything once the act is closed.
fn while_open(act: &Act, until: &str) -> String {
    match act.close.is_empty() {
        true => until.to_owned(),
        false => String::new(),
    }
}

/// Time left to act: of the statement while it can be confirmed, of the handoff while it is open.
fn left(act: &Act, now: i64) -> String {
    let until = match act.state() {
        State::Prepared => &act.expires_at,
        State::Held | State::Lapsed => &act.ends_at,
        _ => return String::new(),
    };
    seconds_until(until, now).map(duration).unwrap_or_default()
}

/// Slots as they would be executed, else as the handoff has them.
fn slots(profiles: &Profiles, act: &Act, wanted: &[&str], between: &str) -> String {
    let parsed = rw1::parse(profiles, None, &act.ho);
    let value = |slot: &&str| {
        let frozen = act
            .values
            .iter()
            .find(|v| v.slot == **slot)
            .map(|v| v.value.clone());
        frozen.or_else(|| parsed.message.as_ref()?.text(slot).map(str::to_owned))
    };
    wanted.iter().filter_map(value).collect::<Vec<_>>().join(between)
}

fn texts(problems: &[v1::Problem]) -> Vec<String> {
    problems.iter().map(|problem| problem.text.clone()).collect()
}

fn list_of(name: &str, texts: &[String]) -> Option<String> {
    if texts.is_empty() {
        return None;
    }
    Some(
        texts
            .iter()
            .map(|text| format!("{name}: {}", plain(text)))
            .collect::<Vec<_>>()
            .join("\n"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn act(state: State) -> Act {
        let value = |slot: &str, value: &str| v1::FrozenValue {
            slot: slot.into(),
            value: value.into(),
            source: "resolved".into(),
            evidence: "consent".into(),
        };
        Act {
            act_id: "0190163dc1a07000800000000000abcd".into(),
            thread: "scheduler".into(),
            handoff_id: "scheduler-1".into(),
            item: "inv:7".into(),
            ask: "PAY".into(),
            state: state.into(),
            expires_at: "1970-01-01T00:10:00.000Z".into(),
            ends_at: "1970-01-02T00:00:00.000Z".into(),
            waits_for: "scheduler: confirm or cancel".into(),
            values: vec![
                value("amt", "5400.00"),
                value("cur", "GBP"),
                value("acct", "40-12-88/61102938"),
            ],
            ho: "RW1 HO scheduler-1 from=scheduler to=payer item=inv:7 ask=PAY p=pay sup=marlow amt=1.00"
                .into(),
            ..Act::default()
        }
    }

    #[test]
    fn an_operator_sees_what_is_pending_and_who_must_act() {
        let found = v1::ListActsReply {
            acts: vec![act(State::Prepared), act(State::Held)],
            next_page_token: "more".into(),
        };
        let text = list(&found, 2, "nothing");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("STATE"));
        for needle in [
            "prepared",
            "9m 58s",
            "5400.00 GBP",
            "marlow 40-12-88/61102938",
            "inv:7",
            "scheduler: confirm or cancel",
            "scheduler-1",
            "0190163dc1a07000800000000000abcd",
        ] {
            assert!(lines[1].contains(needle), "{needle}: {text}");
        }
        assert!(
            lines[2].starts_with("held") && lines[2].contains("23h 59m"),
            "{text}"
        );
        assert!(lines[3].contains("more than 2"));
        assert_eq!(
            list(&v1::ListActsReply::default(), 0, "nothing is pending"),
            "nothing is pending"
        );
    }

    #[test]
    fn what_a_counterparty_said_cannot_steer_the_terminal() {
        let mut held = act(State::InDoubt);
        held.doubt = "no answer\u{1b}[31m\nstate  done".into();
        let text = one(
            &v1::GetActReply {
                act: Some(held),
                doubt: Some(v1::Doubt {
                    why: "no answer\u{1b}[31m\nstate  done".into(),
                    ..v1::Doubt::default()
                }),
                ..v1::GetActReply::default()
            },
            0,
        );
        assert!(
            !text.contains('\u{1b}') && !text.contains("\nstate  done"),
            "{text}"
        );
    }

    #[test]
    fn an_act_in_doubt_is_told_with_who_holds_it_and_when_it_can_end() {
        let reply = v1::GetActReply {
            act: Some(act(State::InDoubt)),
            doubt: Some(v1::Doubt {
                why: "the line went dead".into(),
                maybe_sent: true,
                owner: "house.boot".into(),
                epoch: 2,
                owner_fate: "this daemon, which only looks it up".into(),
                open_calls: vec!["other.boot".into()],
                lookups: 4,
                next_look_at: "1970-01-01T00:00:20.000Z".into(),
                decides_from: "1970-01-01T00:01:05.000Z".into(),
                decides: "absent then, it was not done".into(),
                settles: "no word is taken".into(),
                escalated: true,
                ..v1::Doubt::default()
            }),
            timeline: vec![v1::Moment {
                at: "1970-01-01T00:00:01.000Z".into(),
                what: "taken over".into(),
                text: "by house.boot from other.boot".into(),
            }],
            ..v1::GetActReply::default()
        };
        let text = one(&reply, 5);
        for needle in [
            "in doubt because      the line went dead",
            "bytes may have left   yes",
            "held by               house.boot, epoch 2: this daemon, which only looks it up",
            "may still be calling  other.boot",
            "4 times, next 1970-01-01T00:00:20.000Z (in 15s)",
            "1970-01-01T00:01:05.000Z (in 1m 00s): absent then, it was not done",
            "a person settles      no word is taken",
            "wilco settle ACT",
            "taken over  by house.boot from other.boot",
        ] {
            assert!(text.contains(needle), "{needle}: {text}");
        }
    }

    #[test]
    fn a_likely_twin_and_a_contradiction_stand_out() {
        let mut held = act(State::Held);
        held.twins = vec!["0190163dc1a07000800000000000ffff".into()];
        held.waits_for = "operator: release".into();
        let mut against = act(State::Failed);
        against.verdict = "contradicted".into();
        let found = v1::ListActsReply {
            acts: vec![held.clone(), against],
            next_page_token: String::new(),
        };
        let text = list(&found, 0, "nothing");
        assert!(
            text.contains("held, likely twin") && text.contains("failed, contradicted"),
            "{text}"
        );
        let text = one(
            &v1::GetActReply {
                act: Some(held),
                ..v1::GetActReply::default()
            },
            0,
        );
        assert!(text.contains("likely twin") && text.contains("ffff"), "{text}");
    }

    #[test]
    fn an_answer_without_a_report_says_to_ask_again() {
        let reply = v1::CommitReply {
            act: Some(act(State::InDoubt)),
            ..v1::CommitReply::default()
        };
        assert!(committed(&reply).contains("ask again"));
        let reply = v1::CommitReply {
            act: Some(act(State::Lapsed)),
            ..v1::CommitReply::default()
        };
        assert!(!committed(&reply).contains("ask again"));
    }
}
