//! Named places at which a test lets the daemon die.
//!
//! `reach!("commit.claim_written")` marks a place. In every ordinary build the macro expands to nothing but a look at its name while compiling: no code, no string,
//! no branch. In the crash tests' own binary (`wilcod-failing`, feature `armed`) the environment says what happens there:
//!
//! ```text
//! WILCO_FAIL="commit.claim_written=kill"        SIGKILL to ourselves, the first time it is reached
//! WILCO_FAIL="send.may_send=stop"               SIGSTOP: somebody else has to let the process go on
//! WILCO_FAIL="settle.written=kill@3"            the third time
//! ```
//!
//! Why not the `fail` crate: it can panic, sleep or call back, which a daemon survives; what is wanted here is the death
//! that no destructor sees, at one instruction, in a process that forbids unsafe code. That is one system call.
//!
//! What never lives here: anything a daemon needs to work. How to add a place: name it in [`POINTS`], then mark it.

/// Every place, in the order in which an act meets them. The macro takes no other name.
pub const POINTS: &[&str] = &[
    "prepare.resolved",
    "prepare.written",
    "commit.ready",
    "commit.claim_written",
    "commit.declined",
    "store.begun",
    "store.committing",
    "store.committed",
    "execute.permit",
    "send.connected",
    "send.may_send",
    "send.answered",
    "settle.outcome",
    "settle.written",
    "commit.answering",
    "cancel.deciding",
    "cancel.written",
    "operator.settling",
    "operator.settled",
    "expire.deciding",
    "expire.written",
    "recover.taking_over",
    "recover.taken_over",
    "recover.looking",
    "recover.looked",
    "recover.resending",
    "purge.deciding",
    "purge.written",
];

/// The variable that arms a place.
pub const VARIABLE: &str = "WILCO_FAIL";

/// The variable that names a file: the daemon's clock runs ahead by the seconds written there, read at every look.
pub const CLOCK_VARIABLE: &str = "WILCO_FAIL_CLOCK_FILE";

/// Marks a place by its name in [`POINTS`].
#[cfg(feature = "armed")]
#[macro_export]
macro_rules! reach {
    ($name:literal) => {{
        const { assert!($crate::is_point($name), "a place that POINTS does not name") };
        $crate::armed::reached($name);
    }};
}

/// Marks a place by its name in [`POINTS`]; nothing, in this build.
#[cfg(not(feature = "armed"))]
#[macro_export]
macro_rules! reach {
    ($name:literal) => {{
        const { assert!($crate::is_point($name), "a place that POINTS does not name") };
    }};
}

/// Whether [`POINTS`] names this place.
#[must_use]
pub const fn is_point(name: &str) -> bool {
    let mut at = 0;
    while at < POINTS.len() {
        if same(POINTS[at].as_bytes(), name.as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(feature = "armed")]
pub mod armed {
    //! What happens at an armed place.

    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    /// What the environment asks for.
    struct Order {
        point: String,
        signal: Signal,
        /// How many times it is still to be reached.
        left: AtomicU32,
    }

    /// Called by [`crate::reach!`].
    pub fn reached(name: &str) {
        static ORDER: OnceLock<Option<Order>> = OnceLock::new();
        let Some(order) = ORDER.get_or_init(read).as_ref().filter(|o| o.point == name) else {
            return;
        };
        // Whoever counts from one to zero is the one.
        let counted = order
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if counted != Ok(1) {
            return;
        }
        if let Err(error) = kill_process(getpid(), order.signal) {
            panic!("{name}: no signal could be sent to ourselves: {error}");
        }
        // SIGKILL ends every thread before this call returns. SIGSTOP is taken by any thread, when it is scheduled: until
        // then we would run on. Once it is taken, the next return from the kernel is where we stand still.
        while stop_is_pending() {
            std::thread::yield_now();
        }
    }

    /// Whether a SIGSTOP to the whole process waits to be taken: `ShdPnd` of proc(5), bit 18.
    fn stop_is_pending() -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let pending = status.lines().find_map(|l| l.strip_prefix("ShdPnd:"));
        let mask = pending.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask & (1 << 18) != 0)
    }

    /// How far the daemon's clock runs ahead of the machine's, in microseconds: what only happens after days, or while a
    /// process stands still, is tried too.
    ///
    /// # Panics
    /// On a file that cannot be read or holds no number: a test that moves no clock must not pass.
    #[must_use]
    pub fn clock_ahead_us() -> i64 {
        static FILE: OnceLock<Option<String>> = OnceLock::new();
        let Some(file) = FILE.get_or_init(|| std::env::var(super::CLOCK_VARIABLE).ok()) else {
            return 0;
        };
        let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{file}: {e}"));
        let seconds: i64 = text
            .trim()
            .parse()
            .unwrap_or_else(|e| panic!("{file}: {text}: {e}"));
        seconds.saturating_mul(1_000_000)
    }

    /// # Panics
    /// On an order that cannot be understood: a test that arms nothing must not pass.
    fn read() -> Option<Order> {
        let text = std::env::var(super::VARIABLE).ok().filter(|t| !t.is_empty())?;
        let order = parse(&text);
        assert!(
            order.is_some(),
            "{}={text} is not POINT=kill|stop[@N]",
            super::VARIABLE
        );
        order
    }

    fn parse(text: &str) -> Option<Order> {
        let (point, action) = text.split_once('=')?;
        let (word, count) = action.split_once('@').unwrap_or((action, "1"));
        let signal = match word {
            "kill" => Signal::KILL,
            "stop" => Signal::STOP,
            _ => return None,
        };
        let left: u32 = count.parse().ok().filter(|n| *n > 0)?;
        super::is_point(point).then(|| Order {
            point: point.to_owned(),
            signal,
            left: AtomicU32::new(left),
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn orders_are_read_strictly() {
            let order = parse("settle.written=kill@3").expect("an order");
            assert_eq!(
                (order.point.as_str(), order.left.load(Ordering::SeqCst)),
                ("settle.written", 3)
            );
            assert!(parse("send.may_send=stop").is_some());
            for wrong in [
                "settle.written",
                "nowhere=kill",
                "settle.written=die",
                "settle.written=kill@0",
            ] {
                assert!(parse(wrong).is_none(), "{wrong}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_or_not() {
        assert!(is_point("store.committed"));
        assert!(!is_point("store.commit"));
        assert!(!is_point(""));
    }
}
