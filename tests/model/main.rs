//! Every order of events around the core's real decisions, explored.
//!
//! Two daemons in two houses on one store, two callers, one counterparty, and everything that can come between them:
//! crashes before and after each write, restarts on the same folder, a daemon paused past everything between its permit and
//! its bytes, answers that get lost, bytes that land late, statements and handoffs that run out. The decisions are
//! `wilco-core`'s own functions; the shell around them ([`shell`]) is a small mirror of the engine's; the rules ([`rules`])
//! are judged from what really happened. Small bounds, but within them every interleaving there is.
//!
//! Then the rules of the shell are broken one at a time, and each time a rule must notice: a check that cannot fail proves
//! nothing.

mod callers;
mod configurations;
mod counterparty;
mod daemons;
mod decisions;
mod mutation;
mod rules;
mod shell;
mod state;
mod store;
mod words;

use std::io::Write;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use configurations::Kind;
use mutation::Mutation;
use shell::House;

/// Explores a kind of house to its end.
fn explore(kind: Kind) {
    let started = Instant::now();
    let checker = kind
        .house(None)
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    report(&format!(
        "model {kind:?}: {} states explored, {} steps, depth {}, {} rows, {:.1} s",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        checker.model().decisions.shelf.len(),
        started.elapsed().as_secs_f32(),
    ));
    let broken = broken(&checker);
    assert!(broken.is_empty(), "{kind:?}: {}", broken.join("\n\n"));
    for turn in kind.turns() {
        assert!(
            checker.model().turns.taken(*turn),
            "{kind:?} never came past {turn:?}: it shows less than it claims"
        );
    }
}

/// The rules found broken, each with the events that led there.
fn broken(checker: &impl Checker<House>) -> Vec<String> {
    let found = checker.discoveries().into_iter();
    found
        .map(|(rule, path)| {
            let steps = path.into_vec();
            let told = steps.iter().map(|(moment, event)| {
                let next = event.map_or_else(|| format!("{moment:?}"), |event| format!("-> {event:?}"));
                format!("  {}\n  {next}", row(checker.model(), moment))
            });
            format!("{rule}\n{}", told.collect::<Vec<_>>().join("\n"))
        })
        .collect()
}

/// The row at a moment, in a line.
fn row(house: &House, moment: &state::Moment) -> String {
    let held = house.decisions.shelf.get(moment.kept);
    let Some(act) = &held.0.act else {
        return format!("[{}] no act", moment.now);
    };
    let claim = act
        .execution()
        .map(|e| (&e.claim.owner, e.claim.epoch, &e.progress));
    format!("[{}] {} {claim:?}", moment.now, act.state().as_str())
}

/// Past the test harness's capture: how much was explored is part of the result.
fn report(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}

#[test]
fn replayable() {
    explore(Kind::Replayable);
}

#[test]
fn replayable_for_a_while() {
    explore(Kind::ReplayableForAWhile);
}

#[test]
fn forgetful() {
    explore(Kind::Forgetful);
}

#[test]
fn verifiable() {
    explore(Kind::Verifiable);
}

#[test]
fn verifiable_in_time() {
    explore(Kind::VerifiableInTime);
}

#[test]
fn blind() {
    explore(Kind::Blind);
}

#[test]
fn evidence_only() {
    explore(Kind::EvidenceOnly);
}

#[test]
fn slow() {
    explore(Kind::Slow);
}

#[test]
fn cancelled() {
    explore(Kind::Cancelled);
}

#[test]
fn expiring() {
    explore(Kind::Expiring);
}

#[test]
fn careless() {
    explore(Kind::Careless);
}

#[test]
fn unheard() {
    explore(Kind::Unheard);
}

/// Each broken rule of the engine, where it is broken, and the rule that must notice.
const MUTANTS: &[(Mutation, Kind, &str)] = &[
    (Mutation::DropTheClaim, Kind::Verifiable, rules::CLAIM_FIRST),
    (Mutation::ForgetVersions, Kind::Cancelled, rules::NEVER_LOST),
    (Mutation::SkipTheFence, Kind::Replayable, rules::FENCED),
    (Mutation::OneLookupProves, Kind::Verifiable, rules::NOT_DENIED),
    (Mutation::AskedWhenAnswered, Kind::Verifiable, rules::NOT_DENIED),
    (Mutation::ExpiryBeforeReplay, Kind::Expiring, rules::SAME_ANSWER),
    (Mutation::ForgetTheTombstone, Kind::Cancelled, rules::NOT_DENIED),
    (
        Mutation::ResendWithoutIdentity,
        Kind::Verifiable,
        rules::ONE_EFFECT,
    ),
    (Mutation::TrustAForgottenKey, Kind::Forgetful, rules::ONE_EFFECT),
    (Mutation::SilentIsDead, Kind::Verifiable, rules::NOT_DENIED),
    (Mutation::AnswerBeforeTheWrite, Kind::Verifiable, rules::DURABLE),
    (
        Mutation::SendAfterTheLastMoment,
        Kind::Verifiable,
        rules::LAST_MOMENT,
    ),
    (Mutation::ClockBeforeTheLock, Kind::Expiring, rules::IN_TIME),
    (Mutation::BareTokenPays, Kind::Careless, rules::CONFIRMED),
    (Mutation::RefusalSpeaksForAll, Kind::Replayable, rules::NOT_DENIED),
    (Mutation::ForgetVersions, Kind::Cancelled, rules::CLOSES_ONCE),
    (
        Mutation::ResendWithoutIdentity,
        Kind::EvidenceOnly,
        rules::ONE_SENDING,
    ),
    (Mutation::AcceptedIsDone, Kind::Slow, rules::NOT_INVENTED),
    (Mutation::ForgetTheLookups, Kind::Verifiable, rules::DOUBT_ENDS),
    (Mutation::CancelEntersAtOnce, Kind::Cancelled, rules::SOUND_THREAD),
];

#[test]
fn every_mutant_is_caught() {
    let mut survived = Vec::new();
    for (mutation, kind, rule) in MUTANTS {
        let started = Instant::now();
        let checker = kind
            .house(Some(*mutation))
            .checker()
            .finish_when(HasDiscoveries::AnyOf([*rule].into()))
            .spawn_bfs()
            .join();
        let path = checker.discovery(rule);
        let how = path.as_ref().map_or("SURVIVED".to_owned(), |path| {
            format!("caught in {} steps", path.clone().into_actions().len())
        });
        report(&format!(
            "mutant {mutation:?} in {kind:?}: {how} by \"{rule}\" ({} states, {:.1} s)",
            checker.unique_state_count(),
            started.elapsed().as_secs_f32(),
        ));
        if path.is_none() {
            survived.push(format!("{mutation:?}: no order of events breaks \"{rule}\""));
        }
    }
    assert!(survived.is_empty(), "{}", survived.join("\n"));
}

#[test]
fn every_rule_has_caught_a_mutant() {
    for rule in rules::all() {
        assert!(
            MUTANTS.iter().any(|(_, _, caught_by)| *caught_by == rule.name),
            "nothing shows that \"{}\" can fail",
            rule.name
        );
    }
}
