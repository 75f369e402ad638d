//! Faults that tests ask the writer for. Without the feature `suite` there are none, and asking for them does not compile.

/// What goes wrong with the next batch that writes anything.
#[cfg(feature = "suite")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// SQLite answers COMMIT with an error and rolls back.
    CommitFails,
    /// COMMIT is carried out, and its answer is lost.
    CommitAnswerLost,
    /// This runs on the writing connection before the batch's own statements.
    Runs(&'static str),
    /// The batch begins once so many writes are waiting, so that they are one.
    Gathers(usize),
    /// The file cannot be opened again after the batch went wrong, until that is said to be over.
    ReopenFails,
}

/// Faults waiting for their batch.
#[derive(Default)]
pub(super) struct Faults {
    #[cfg(feature = "suite")]
    waiting: std::sync::Mutex<Vec<Fault>>,
}

#[cfg(feature = "suite")]
impl Faults {
    pub(super) fn add(&self, fault: Fault) {
        self.locked().push(fault);
    }

    /// Stays until a COMMIT was reached: a batch may be tried twice.
    pub(super) fn commit_fails(&self) -> bool {
        self.locked().contains(&Fault::CommitFails)
    }

    pub(super) fn commit_failed(&self) {
        self.locked().retain(|f| *f != Fault::CommitFails);
    }

    pub(super) fn commit_answer_lost(&self) -> bool {
        self.take(|f| (*f == Fault::CommitAnswerLost).then_some(()))
            .is_some()
    }

    pub(super) fn runs(&self) -> Option<&'static str> {
        self.take(|f| match f {
            Fault::Runs(sql) => Some(*sql),
            _ => None,
        })
    }

    pub(super) fn gathers(&self) -> usize {
        self.take(|f| match f {
            Fault::Gathers(writes) => Some(*writes),
            _ => None,
        })
        .unwrap_or(0)
    }

    pub(super) fn reopen_fails(&self) -> bool {
        self.locked().contains(&Fault::ReopenFails)
    }

    pub(super) fn reopen_succeeds(&self) {
        self.locked().retain(|f| *f != Fault::ReopenFails);
    }

    fn take<T>(&self, wanted: impl Fn(&Fault) -> Option<T>) -> Option<T> {
        let mut waiting = self.locked();
        let (i, found) = waiting
            .iter()
            .enumerate()
            .find_map(|(i, f)| wanted(f).map(|found| (i, found)))?;
        waiting.remove(i);
        Some(found)
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Vec<Fault>> {
        self.waiting
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(not(feature = "suite"))]
#[allow(clippy::unused_self)]
impl Faults {
    pub(super) fn gathers(&self) -> usize {
        0
    }

    pub(super) fn commit_fails(&self) -> bool {
        false
    }

    pub(super) fn commit_failed(&self) {}

    pub(super) fn commit_answer_lost(&self) -> bool {
        false
    }

    pub(super) fn runs(&self) -> Option<&'static str> {
        None
    }

    pub(super) fn reopen_fails(&self) -> bool {
        false
    }
}
