//! Looking: at acts, journals and threads. What is due is expired first, so that nobody is shown a live statement
//! that cannot be confirmed any more.

use std::collections::HashMap;
use std::sync::Arc;

use wilco_core::act::StoredProblem;
use wilco_core::journal::Row;
use wilco_core::token::Token;
use wilco_core::{Act, ActId, Reason, Refusal};
use wilco_store::{Filter, Page, ThreadLine};

use crate::api::{ActRef, Caller, Role, ThreadView};
use crate::commit::act_of;
use crate::engine::{Engine, store_refusal};
use crate::prepare::MAX_THREAD_BYTES;

/// Lines per page of a thread.
const PAGE_LINES: u32 = 500;

/// The most lines the thread check looks at.
const MOST_CHECKED: usize = 5_000;

impl Engine {
    /// One act. Unknown and not yours are the same answer.
    ///
    /// # Errors
    /// [`Reason::UnknownAct`] or [`Reason::UnknownToken`].
    pub async fn act(&self, caller: &Caller, which: &ActRef) -> Result<Act, Refusal> {
        let act = match which {
            ActRef::Id(id) => self.keeper.act(*id).await.map_err(store_refusal)?,
            ActRef::Handoff { thread, handoff_id } => {
                if thread.len() > MAX_THREAD_BYTES {
                    return Err(unknown_act());
                }
                self.keeper
                    .act_by_handoff(thread, handoff_id)
                    .await
                    .map_err(store_refusal)?
            }
            ActRef::Token(text) => {
                let unknown = || Refusal::new(Reason::UnknownToken, "no such token").in_field("token");
                let token = Token::parse(text).ok_or_else(unknown)?;
                return self.expire_if_due(act_of(self, caller, &token).await?).await;
            }
        };
        let act = act.filter(|act| may_see(caller, act)).ok_or_else(unknown_act)?;
        self.expire_if_due(act).await
    }

    /// An act's journal, for those who may see the act.
    ///
    /// # Errors
    /// [`Reason::UnknownAct`].
    pub async fn journal(&self, caller: &Caller, act_id: ActId) -> Result<Vec<Row>, Refusal> {
        self.act(caller, &ActRef::Id(act_id)).await?;
        self.keeper.journal(act_id).await.map_err(store_refusal)
    }

    /// Acts, newest first: a sender's own, everybody's for other roles.
    ///
    /// # Errors
    /// A page token that is not ours; the store does not answer.
    pub async fn acts(&self, caller: &Caller, filter: Filter) -> Result<Page<Act>, Refusal> {
        let own = || caller.speaks_for.iter().filter(|agent| caller.speaks_for(agent));
        let senders = (!caller.sees_all()).then(|| own().cloned().collect());
        let filter = Filter { senders, ..filter };
        let mut page = self.keeper.acts(&filter).await.map_err(store_refusal)?;
        let mut fresh = Vec::with_capacity(page.items.len());
        for act in page.items {
            let act = self.expire_if_due(act).await?;
            if filter.states.is_empty() || filter.states.contains(&act.state()) {
                fresh.push(act);
            }
        }
        page.items = fresh;
        Ok(page)
    }

    /// A thread's lines, and what the thread check says of it.
    ///
    /// # Errors
    /// [`Reason::UnknownAct`] for a thread that is not there or not yours.
    pub async fn thread(
        self: &Arc<Self>,
        caller: &Caller,
        thread: &str,
        page_token: Option<&str>,
    ) -> Result<ThreadView, Refusal> {
        let theirs = Filter {
            thread: Some(thread.to_owned()),
            limit: 1,
            ..Filter::default()
        };
        if self.acts(caller, theirs).await?.items.is_empty() {
            return Err(Refusal::new(Reason::UnknownAct, "no such thread"));
        }
        for act in self
            .keeper
            .due_in_thread(thread, self.keeper.now())
            .await
            .map_err(store_refusal)?
        {
            self.expire_if_due(act).await?;
        }
        let page = self
            .keeper
            .thread(thread, page_token, PAGE_LINES)
            .await
            .map_err(store_refusal)?;
        let (mut problems, mut notes) = (Vec::new(), Vec::new());
        let mut theirs = Theirs::of(caller);
        if page.next.is_none() {
            let (lines, all) = self.whole_thread(thread, &mut theirs).await?;
            let now = self.keeper.now().to_rw1();
            let checked = rw1::check_thread(&self.profiles, None, &lines, Some(&now));
            problems.extend(checked.problems.iter().map(StoredProblem::from));
            notes.extend(checked.notes.iter().map(StoredProblem::from));
            if !all {
                notes.push(StoredProblem {
                    code: "thread_too_long".into(),
                    slot: None,
                    want: None,
                    got: None,
                    text: format!("only the first {MOST_CHECKED} lines were checked"),
                });
            }
        }
        let items = self.visible(page.items, &mut theirs).await?;
        let lines = items.into_iter().map(|l| l.line.unwrap_or_default()).collect();
        Ok(ThreadView {
            lines,
            problems,
            notes,
            next: page.next,
        })
    }

    /// The lines of acts the caller may see: in a thread that several senders share, each sees its own.
    async fn visible(
        &self,
        lines: Vec<ThreadLine>,
        theirs: &mut Theirs<'_>,
    ) -> Result<Vec<ThreadLine>, Refusal> {
        if theirs.caller.sees_all() {
            return Ok(lines);
        }
        let mut seen = Vec::with_capacity(lines.len());
        for line in lines {
            let visible = match theirs.known.get(&line.act_id) {
                Some(visible) => *visible,
                None => {
                    let act = self.keeper.act(line.act_id).await.map_err(store_refusal)?;
                    let visible = act.is_some_and(|act| may_see(theirs.caller, &act));
                    theirs.known.insert(line.act_id, visible);
                    visible
                }
            };
            if visible {
                seen.push(line);
            }
        }
        Ok(seen)
    }

    async fn whole_thread(
        &self,
        thread: &str,
        theirs: &mut Theirs<'_>,
    ) -> Result<(Vec<String>, bool), Refusal> {
        let mut lines = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = self
                .keeper
                .thread(thread, after.as_deref(), PAGE_LINES)
                .await
                .map_err(store_refusal)?;
            let items = self.visible(page.items, theirs).await?;
            lines.extend(items.into_iter().filter_map(|l| l.line));
            match page.next {
                Some(next) if lines.len() < MOST_CHECKED => after = Some(next),
                next => return Ok((lines, next.is_none())),
            }
        }
    }
}

/// Which acts of a thread a caller may see, as far as it was asked.
struct Theirs<'a> {
    caller: &'a Caller,
    known: HashMap<ActId, bool>,
}

impl Theirs<'_> {
    fn of(caller: &Caller) -> Theirs<'_> {
        Theirs {
            caller,
            known: HashMap::new(),
        }
    }
}

fn may_see(caller: &Caller, act: &Act) -> bool {
    caller.sees_all() || (caller.has(Role::Sender) && caller.speaks_for.contains(&act.handoff.sender))
}

fn unknown_act() -> Refusal {
    Refusal::new(Reason::UnknownAct, "no such act")
}
