//! Faults that tests ask a write for. Without the feature `suite` there are none, and asking for them does not compile.

/// What goes wrong with the next write.
#[cfg(feature = "suite")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection is lost before the server gets the write.
    LostBefore,
    /// The write is made, and its answer is lost.
    AnswerLost,
    /// What became of a write cannot be read back.
    ReadBackFails,
    /// The write is late: its instant is before the server's clock.
    Late,
    /// Something stood in the way of the write when the server looked, and need not any more.
    Refused,
}

/// Faults waiting for their write.
#[derive(Default)]
pub(super) struct Faults {
    #[cfg(feature = "suite")]
    waiting: std::sync::Mutex<Vec<Fault>>,
}

#[cfg(feature = "suite")]
impl Faults {
    pub(super) fn add(&self, fault: Fault) {
        super::locked(&self.waiting).push(fault);
    }

    fn take(&self, wanted: Fault) -> bool {
        let mut waiting = super::locked(&self.waiting);
        let found = waiting.iter().position(|f| *f == wanted);
        found.map(|i| waiting.remove(i)).is_some()
    }

    pub(super) fn lost_before(&self) -> bool {
        self.take(Fault::LostBefore)
    }

    pub(super) fn answer_lost(&self) -> bool {
        self.take(Fault::AnswerLost)
    }

    pub(super) fn read_back_fails(&self) -> bool {
        self.take(Fault::ReadBackFails)
    }

    pub(super) fn late(&self) -> bool {
        self.take(Fault::Late)
    }

    pub(super) fn refused(&self) -> bool {
        self.take(Fault::Refused)
    }
}

#[cfg(not(feature = "suite"))]
#[allow(clippy::unused_self)]
impl Faults {
    pub(super) fn lost_before(&self) -> bool {
        false
    }

    pub(super) fn answer_lost(&self) -> bool {
        false
    }

    pub(super) fn read_back_fails(&self) -> bool {
        false
    }

    pub(super) fn late(&self) -> bool {
        false
    }

    pub(super) fn refused(&self) -> bool {
        false
    }
}
