//! The suite every keeper must pass, and the sample acts it is made of. For tests and benchmarks only.
//!
//! Each case is a function that takes a fresh keeper and the clock it runs on, and panics where a promise of the port
//! is broken. [`keeper_suite!`](crate::keeper_suite) makes one test of each:
//!
//! ```text
//! async fn fresh(clock: Arc<HandClock>) -> (Arc<dyn Keeper>, impl Sized) { … }
//! wilco_store::keeper_suite!(fresh);
//! ```

pub mod clock;
pub mod concurrent;
pub mod hand;
pub mod journal;
pub mod purge;
pub mod reading;
pub mod refusals;
pub mod sample;
pub mod twins;
pub mod writes;

use wilco_core::write::Decide;
use wilco_core::{Act, Change, Written};

use crate::{Keeper, StoreError};

/// One test per case, each with its own keeper from `$fresh`: an async function from a clock to a keeper and whatever
/// must live as long as it.
#[macro_export]
macro_rules! keeper_suite {
    ($fresh:path) => {
        $crate::keeper_cases!($fresh;
            writes::a_new_act_is_kept_as_it_was_answered,
            writes::every_stage_survives_being_kept,
            writes::an_act_advances_from_its_version,
            writes::a_claim_is_attested_and_nothing_else,
            writes::several_changes_stand_together,
            writes::an_empty_list_advances_and_writes_nothing,
            writes::a_tombstone_takes_its_handoff,
            writes::a_closed_keeper_takes_nothing,
            refusals::a_stale_write_is_answered_with_the_row,
            refusals::a_handoff_id_is_taken_once_in_a_thread,
            refusals::a_message_id_is_taken_once_in_a_thread,
            refusals::an_act_is_reversed_once_at_a_time,
            refusals::a_write_can_pass_a_reversal_on,
            refusals::nothing_of_a_refused_write_stands,
            refusals::a_write_that_makes_no_sense_is_named,
            reading::lists_are_newest_first_and_filtered,
            reading::pages_neither_skip_nor_repeat,
            reading::a_foreign_page_token_is_refused,
            reading::what_is_due_comes_most_overdue_first,
            reading::what_is_claimed_comes_oldest_first,
            reading::a_thread_is_read_in_the_order_it_was_written,
            reading::a_message_leads_to_its_act,
            reading::states_are_counted,
            journal::every_chain_holds,
            journal::a_changed_row_breaks_the_chain,
            concurrent::one_of_many_writers_of_a_version_wins,
            concurrent::one_of_many_handoffs_with_an_id_wins,
            concurrent::refused_writers_touch_no_other,
            twins::a_twin_counts_in_the_states_asked_for,
            twins::a_failed_act_that_turned_out_done_is_a_twin,
            twins::a_twin_counts_within_the_span,
            twins::only_what_is_alike_is_a_twin,
            twins::a_twin_that_was_undone_does_not_count,
            twins::what_is_superseded_in_the_same_write_is_no_twin,
            twins::nothing_of_a_write_with_a_twin_stands,
            twins::a_later_attempt_can_be_like_others,
            twins::one_of_many_twins_stands,
            twins::one_of_two_twins_is_claimed,
            purge::what_is_closed_and_old_loses_its_texts,
            purge::what_was_erased_still_stands_in_the_way,
            purge::a_purge_goes_in_rounds_past_what_is_kept,
            purge::a_purge_is_in_nobodys_way,
            clock::every_write_is_decided_at_a_later_instant,
            clock::a_clock_set_back_stops_writes_until_acknowledged,
        );
    };
}

/// Used by [`keeper_suite!`](crate::keeper_suite).
#[macro_export]
#[doc(hidden)]
macro_rules! keeper_cases {
    ($fresh:path; $($module:ident::$case:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let clock = $crate::suite::hand::HandClock::new();
                let (keeper, kept) = $fresh(std::sync::Arc::clone(&clock)).await;
                $crate::suite::$module::$case(&*keeper, &clock).await;
                keeper.close().await;
                drop(kept);
            }
        )*
    };
}

/// A write that must advance; the acts as they now stand.
pub async fn advance(
    keeper: &dyn Keeper,
    decide: impl Fn(wilco_core::Timestamp) -> Vec<Change> + Send + Sync + 'static,
) -> Vec<Act> {
    match keeper.write(Box::new(decide)).await {
        Ok(Written::Advanced { acts, .. }) => acts,
        other => panic!("the write should have advanced: {other:?}"),
    }
}

/// The sample act `n`, inserted.
pub async fn inserted(keeper: &dyn Keeper, n: u64) -> Act {
    inserted_as(keeper, n, |act| act).await
}

/// The sample act `n`, changed by `with` and inserted.
pub async fn inserted_as(
    keeper: &dyn Keeper,
    n: u64,
    with: impl Fn(Act) -> Act + Send + Sync + 'static,
) -> Act {
    advance(keeper, move |at| {
        vec![sample::insert(with(sample::prepared(n, at)))]
    })
    .await
    .remove(0)
}

/// The act, written again as `with` makes it.
pub async fn changed(
    keeper: &dyn Keeper,
    act: Act,
    with: impl Fn(Act, wilco_core::Timestamp) -> Act + Send + Sync + 'static,
) -> Act {
    advance(keeper, move |at| {
        vec![sample::update(with(act.clone(), at), Vec::new())]
    })
    .await
    .remove(0)
}

/// A decision that is known beforehand.
pub fn fixed(changes: Vec<Change>) -> Decide {
    Box::new(move |_| changes.clone())
}

/// What a write answered, which must not be an error.
pub fn answered(written: Result<Written, StoreError>) -> Written {
    written.unwrap_or_else(|e| panic!("the keeper should have answered: {e}"))
}

/// The act with this id, which must be there.
pub async fn read(keeper: &dyn Keeper, id: wilco_core::ActId) -> Act {
    match keeper.act(id).await {
        Ok(Some(act)) => act,
        other => panic!("act {id} should be there: {other:?}"),
    }
}
