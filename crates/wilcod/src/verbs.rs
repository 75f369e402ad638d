//! What the daemon does for a caller: one function a verb, the same for gRPC and JSON.
//!
//! Here a request of the wire becomes one of the engine, and its answer one of the wire. Every field is looked at
//! before the engine is asked.

mod adapters;
mod operator;

use std::time::Duration;

use prost::Message;
use wilco_api::{convert, v1};
use wilco_core::{ActId, Reason, Refusal, Timestamp, Verdict};
use wilco_engine::{ActRef, CancelRequest, CommitRequest, Doubt, PrepareRequest};
use wilco_store::Filter;

use crate::app::{App, Seen};
use crate::metrics::Verb;

pub use adapters::{check_adapter, list_adapters};
pub use operator::{purge, release, settle};

/// The longest thread name, in bytes.
const THREAD_MAX: usize = 200;
/// The longest token, digest, message id or page token, in bytes.
const WORD_MAX: usize = 512;
/// Acts on a page where the caller names no number.
const PAGE_DEFAULT: u32 = 50;
/// The most acts on a page.
const PAGE_MAX: u32 = 500;
/// The most bytes of a page: gRPC clients take no more than 4 MiB unless told otherwise.
const PAGE_BYTES: usize = 3 << 20;

/// Prepare.
///
/// # Errors
/// The engine's refusals, `UNAUTHENTICATED`, and `MALFORMED` for a field out of its limits.
pub async fn prepare(
    app: &App,
    key: Option<&[u8]>,
    request: v1::PrepareRequest,
) -> Result<v1::PrepareReply, Refusal> {
    let mut seen = Seen::new(Verb::Prepare);
    let answer = async {
        let caller = app.caller(key, &mut seen)?;
        app.open()?;
        seen.thread.clone_from(&request.thread);
        thread_name(&request.thread)?;
        line("ho", &request.ho)?;
        let record = record(&request.record)?;
        let prepared = app
            .engine
            .prepare(
                caller,
                PrepareRequest {
                    thread: request.thread,
                    ho: request.ho,
                    record,
                },
            )
            .await?;
        seen.act(&prepared.act);
        Ok(v1::PrepareReply {
            reply: prepared.reply,
            statement: prepared.statement,
            statement_sha256: prepared.statement_sha256,
            token: prepared.token,
            expires_in_s: prepared.expires_in_s,
            act: Some(convert::act(&prepared.act)),
            problems: convert::problems(&prepared.problems),
            notes: prepared.notes,
            replayed: prepared.replayed,
        })
    }
    .await;
    app.report(&seen, &answer);
    answer
}

/// Commit.
///
/// # Errors
/// As [`prepare`].
pub async fn commit(
    app: &App,
    key: Option<&[u8]>,
    request: v1::CommitRequest,
) -> Result<v1::CommitReply, Refusal> {
    let mut seen = Seen::new(Verb::Commit);
    let answer = async {
        let caller = app.caller(key, &mut seen)?;
        app.open()?;
        word("token", &request.token)?;
        word("statement_sha256", &request.statement_sha256)?;
        line("confirmation", &request.confirmation)?;
        let committed = app
            .engine
            .commit(
                caller,
                CommitRequest {
                    token: request.token,
                    statement_sha256: request.statement_sha256,
                    confirmation: request.confirmation,
                    wait: wait(request.wait_s),
                },
            )
            .await?;
        seen.act(&committed.act);
        Ok(v1::CommitReply {
            reply: committed.reply,
            act: Some(convert::act(&committed.act)),
            problems: convert::problems(&committed.problems),
            notes: committed.notes,
            replayed: committed.replayed,
        })
    }
    .await;
    app.report(&seen, &answer);
    answer
}

/// Cancel.
///
/// # Errors
/// As [`prepare`].
pub async fn cancel(
    app: &App,
    key: Option<&[u8]>,
    request: v1::CancelRequest,
) -> Result<v1::CancelReply, Refusal> {
    let mut seen = Seen::new(Verb::Cancel);
    let answer = async {
        let caller = app.caller(key, &mut seen)?;
        app.open()?;
        seen.thread.clone_from(&request.thread);
        thread_name(&request.thread)?;
        line("cx", &request.cx)?;
        let cancelled = app
            .engine
            .cancel(
                caller,
                CancelRequest {
                    thread: request.thread,
                    cx: request.cx,
                    wait: wait(request.wait_s),
                },
            )
            .await?;
        seen.act(&cancelled.act);
        Ok(v1::CancelReply {
            reply: cancelled.reply,
            act: Some(convert::act(&cancelled.act)),
            notes: cancelled.notes,
            replayed: cancelled.replayed,
        })
    }
    .await;
    app.report(&seen, &answer);
    answer
}

/// One act.
///
/// # Errors
/// As [`prepare`].
pub async fn get_act(
    app: &App,
    key: Option<&[u8]>,
    request: v1::GetActRequest,
) -> Result<v1::GetActReply, Refusal> {
    let mut seen = Seen::new(Verb::GetAct);
    let answer = async {
        let caller = app.caller(key, &mut seen)?;
        let which = act_ref(&request)?;
        let act = app.engine.act(caller, &which).await?;
        seen.act(&act);
        let doubt = app.engine.doubt(&act);
        let troubled = act
            .closed()
            .and_then(|closed| closed.verdict)
            .is_some_and(|verdict| verdict != Verdict::Match);
        let rows = if request.with_journal || doubt.is_some() || troubled {
            app.engine.journal(caller, act.act_id).await?
        } else {
            Vec::new()
        };
        let shown = if request.with_journal {
            rows.as_slice()
        } else {
            &[]
        };
        Ok(v1::GetActReply {
            act: Some(convert::act(&act)),
            journal: shown.iter().map(convert::happening).collect(),
            doubt: doubt.map(told),
            timeline: wilco_engine::timeline(&rows)
                .into_iter()
                .map(|moment| v1::Moment {
                    at: moment.at.to_rfc3339(),
                    what: moment.what,
                    text: moment.text,
                })
                .collect(),
        })
    }
    .await;
    app.report(&seen, &answer);
    answer
}

/// Acts, newest first.
///
/// # Errors
/// As [`prepare`].
pub async fn list_acts(
    app: &App,
    key: Option<&[u8]>,
    request: v1::ListActsRequest,
) -> Result<v1::ListActsReply, Refusal> {
    let mut seen = Seen::new(Verb::ListActs);
    let answer = async {
        let caller = app.caller(key, &mut seen)?;
        thread_name(&request.thread)?;
        word("ask", &request.ask)?;
        word("page_token", &request.page_token)?;
        let mut states = Vec::new();
        for number in &request.states {
            let state = v1::State::try_from(*number).ok().and_then(convert::state_to_core);
            states
                .push(state.ok_or_else(|| Refusal::malformed("states", "states: one of them is no state"))?);
        }
        let given = |text: String| (!text.is_empty()).then_some(text);
        let mut filter = Filter {
            states,
            ask: given(request.ask),
            thread: given(request.thread),
            senders: None,
            page_token: given(request.page_token),
            limit: match request.page_size {
                0 => PAGE_DEFAULT,
                n => n.min(PAGE_MAX),
            },
        };
        loop {
            let page = app.engine.acts(caller, filter.clone()).await?;
            let reply = v1::ListActsReply {
                acts: page.items.iter().map(convert::act).collect(),
                next_page_token: page.next.unwrap_or_default(),
            };
            if reply.encoded_len() <= PAGE_BYTES || filter.limit <= 1 {
                return Ok(reply);
            }
            // Long lines: a shorter page, from the same place.
            filter.limit /= 2;
        }
    }
    .await;
    app.report(&seen, &answer);
    answer
}

/// The lines of a thread.
///
/// # Errors
/// As [`prepare`].
pub async fn get_thread(
    app: &App,
    key: Option<&[u8]>,
    request: v1::GetThreadRequest,
) -> Result<v1::GetThreadReply, Refusal> {
    let mut seen = Seen::new(Verb::GetThread);
    let answer = async {
        let caller = app.caller(key, &mut seen)?;
        seen.thread.clone_from(&request.thread);
        thread_name(&request.thread)?;
        if request.thread.is_empty() {
            return Err(Refusal::malformed("thread", "thread: name the thread"));
        }
        word("page_token", &request.page_token)?;
        let token = (!request.page_token.is_empty()).then_some(request.page_token.as_str());
        let view = app.engine.thread(caller, &request.thread, token).await?;
        Ok(v1::GetThreadReply {
            lines: view.lines,
            problems: convert::problems(&view.problems),
            notes: convert::problems(&view.notes),
            next_page_token: view.next.unwrap_or_default(),
        })
    }
    .await;
    app.report(&seen, &answer);
    answer
}

/// The record a text holds; none for an empty text. A key given twice is refused.
///
/// # Errors
/// `MALFORMED`.
pub fn record(text: &str) -> Result<Option<rw1::Record>, Refusal> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let record = rw1::read_record(text).map_err(|p| Refusal::malformed("record", format!("record: {p}")))?;
    Ok(Some(record))
}

/// The state a word names, for query strings.
///
/// # Errors
/// `MALFORMED` with the words there are.
pub fn state_named(word: &str) -> Result<v1::State, Refusal> {
    wilco_core::State::from_word(word)
        .map(convert::state)
        .ok_or_else(|| {
            let all: Vec<&str> = wilco_core::State::ALL.iter().map(|s| s.as_str()).collect();
            Refusal::malformed("states", format!("states: name any of {}", all.join(", ")))
        })
}

/// Doubt as clients see it.
fn told(doubt: Doubt) -> v1::Doubt {
    let instant = |at: Option<Timestamp>| at.map(|at| at.to_rfc3339()).unwrap_or_default();
    v1::Doubt {
        why: doubt.why,
        maybe_sent: doubt.maybe_sent,
        owner: doubt.owner,
        epoch: doubt.epoch,
        owner_fate: doubt.owner_fate,
        open_calls: doubt.open_calls,
        claimed_at: doubt.claimed_at.to_rfc3339(),
        deadline: doubt.deadline.to_rfc3339(),
        not_after: doubt.not_after.to_rfc3339(),
        lookups: doubt.lookups,
        resends: doubt.resends,
        next_look_at: doubt.next_look_at.to_rfc3339(),
        decides_from: instant(doubt.decides_from),
        decides: doubt.decides,
        settles_from: instant(doubt.settles_from),
        settles: doubt.settles,
        escalated: doubt.escalated,
    }
}

fn act_ref(request: &v1::GetActRequest) -> Result<ActRef, Refusal> {
    let by_id = !request.act_id.is_empty();
    let by_handoff = !request.handoff_id.is_empty();
    let by_token = !request.token.is_empty();
    if usize::from(by_id) + usize::from(by_handoff) + usize::from(by_token) != 1 {
        let text = "name the act in one way: act_id, thread and handoff_id, or token";
        return Err(Refusal::malformed("act_id", text));
    }
    if by_token {
        word("token", &request.token)?;
        return Ok(ActRef::Token(request.token.clone()));
    }
    if by_id {
        return Ok(ActRef::Id(act_id(&request.act_id)?));
    }
    word("handoff_id", &request.handoff_id)?;
    thread_name(&request.thread)?;
    // A thread without a name is the sending agent's, and an id begins with its sender (RW1 specification §2.1).
    let sender = request
        .handoff_id
        .rsplit_once('-')
        .map_or("", |(sender, _)| sender);
    let thread = if request.thread.is_empty() {
        sender
    } else {
        &request.thread
    };
    Ok(ActRef::Handoff {
        thread: thread.to_owned(),
        handoff_id: request.handoff_id.clone(),
    })
}

fn act_id(text: &str) -> Result<ActId, Refusal> {
    text.parse()
        .map_err(|e: wilco_core::ids::NotAnActId| Refusal::malformed("act_id", format!("act_id: {e}")))
}

fn wait(seconds: u32) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))
}

fn thread_name(thread: &str) -> Result<(), Refusal> {
    if thread.len() > THREAD_MAX || thread.chars().any(char::is_control) {
        let text = format!("thread: at most {THREAD_MAX} bytes and no control characters");
        return Err(Refusal::malformed("thread", text));
    }
    Ok(())
}

fn line(field: &str, line: &str) -> Result<(), Refusal> {
    if line.len() > rw1::MAX_LINE_BYTES {
        let text = format!("{field}: a line has at most {} bytes", rw1::MAX_LINE_BYTES);
        return Err(Refusal::malformed(field, text));
    }
    Ok(())
}

fn word(field: &str, word: &str) -> Result<(), Refusal> {
    if word.len() > WORD_MAX || word.chars().any(char::is_control) {
        let text = format!("{field}: at most {WORD_MAX} bytes and no control characters");
        // A token that cannot be one is as unknown as any other.
        let reason = if field == "token" {
            Reason::UnknownToken
        } else {
            Reason::Malformed
        };
        return Err(Refusal::new(reason, text).in_field(field));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_act_is_named_in_exactly_one_way() {
        let by = |act_id: &str, thread: &str, handoff: &str, token: &str| {
            act_ref(&v1::GetActRequest {
                act_id: act_id.into(),
                thread: thread.into(),
                handoff_id: handoff.into(),
                token: token.into(),
                with_journal: false,
            })
        };
        let id = "0190163dc1a07000800000000000abcd";
        assert_eq!(
            by(id, "", "", "").expect("an id").to_owned(),
            ActRef::Id(id.parse().expect("an id"))
        );
        let handoff = |thread: &str, id: &str| ActRef::Handoff {
            thread: thread.into(),
            handoff_id: id.into(),
        };
        assert_eq!(
            by("", "month-end", "scheduler-1", "").expect("named"),
            handoff("month-end", "scheduler-1")
        );
        assert_eq!(
            by("", "", "acme-scheduler-1", "").expect("named"),
            handoff("acme-scheduler", "acme-scheduler-1")
        );
        assert_eq!(by("", "", "", "t").expect("a token"), ActRef::Token("t".into()));
        for (act_id, thread, handoff, token) in [
            ("", "", "", ""),
            (id, "", "scheduler-1", ""),
            (id, "", "", "t"),
            ("", "t", "", ""),
            ("xyz", "", "", ""),
        ] {
            let refusal = by(act_id, thread, handoff, token).expect_err("not one way");
            assert_eq!(
                (refusal.reason, refusal.field.as_deref()),
                (Reason::Malformed, Some("act_id"))
            );
        }
    }

    #[test]
    fn fields_have_limits() {
        assert!(thread_name("month end/7").is_ok());
        assert_eq!(
            thread_name("a\nb").expect_err("control").field.as_deref(),
            Some("thread")
        );
        assert!(thread_name(&"x".repeat(THREAD_MAX + 1)).is_err());
        assert_eq!(
            word("token", &"x".repeat(WORD_MAX + 1)).expect_err("long").reason,
            Reason::UnknownToken
        );
        assert_eq!(
            word("ask", "A\u{7f}").expect_err("control").reason,
            Reason::Malformed
        );
        assert!(line("ho", &"x".repeat(rw1::MAX_LINE_BYTES)).is_ok());
        assert!(line("ho", &"x".repeat(rw1::MAX_LINE_BYTES + 1)).is_err());
        assert!(state_named("in_doubt").is_ok() && state_named("IN_DOUBT").is_err());
    }
}
