//! Every path of the state machine, and what is true after every step of it.

use std::collections::BTreeSet;

use wilco_core::State;

use crate::common::walk::{Step, walk};

/// Steps from the first handoff on: enough for prepare, lapse, again, confirm, cancel, settle and one more.
const DEPTH: usize = 5;

#[test]
fn every_path_keeps_the_thread_sound_and_the_states_true() {
    let walked = walk(DEPTH);
    let all: BTreeSet<State> = State::ALL.into_iter().collect();
    assert_eq!(walked.states, all, "every state was reached");
    let taken: BTreeSet<Step> = walked.edges.keys().map(|(_, step)| *step).collect();
    assert!(
        taken.len() >= 24,
        "every step was taken from some state: {taken:?}"
    );
    assert!(
        walked.seen.iter().any(|s| !s.orphaned.is_empty()),
        "also the truthful orphan"
    );

    // For other people's thread check, to be asked about the same threads.
    let threads = walked.to_json_lines();
    let rows = threads.lines().count();
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("threads.jsonl");
    std::fs::write(&file, &threads).expect("the threads are written");
    println!(
        "{} paths, {} edges, {rows} threads in {}",
        walked.seen.len(),
        walked.edges.len(),
        file.display()
    );
}
