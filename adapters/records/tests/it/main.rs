//! The adapter on a table in SQLite and, with the feature `postgres-tests`, on one in Postgres. The table itself is the
//! judge: it is read by other means than the adapter's. Each story runs on both databases, unless it is about what only one
//! of them has.

mod file;
mod house;
mod kill;
mod kit;
#[cfg(feature = "postgres-tests")]
mod line;
mod stories;

/// The same stories on both databases.
macro_rules! on_both {
    ($($module:ident: $($story:ident)+;)+) => {
        mod sqlite {
            $(mod $module {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    crate::stories::$module::$story(crate::house::House::sqlite()).await;
                })+
            })+
        }
        #[cfg(feature = "postgres-tests")]
        mod postgres {
            $(mod $module {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    crate::stories::$module::$story(crate::house::House::postgres()).await;
                })+
            })+
        }
    };
}

on_both! {
    once: a_change_is_made_once_however_often_it_is_sent an_account_changed_back_is_not_changed_again
        an_account_that_moved_is_left_alone of_acts_that_race_one_wins the_same_act_sent_by_many_is_done_once
        a_late_permit_changes_nothing;
    prepare: what_is_stated_is_what_the_table_says what_cannot_be_done_is_refused_by_name
        values_are_never_statements a_day_is_kept_as_a_date what_the_table_does_not_know_is_carried;
    undo: a_change_is_reversed_by_an_act_of_its_own what_moved_on_is_not_reversed;
    callback: nothing_changes_before_the_call_back a_call_back_for_something_else_does_not_count
        a_call_back_withdrawn_stops_the_change a_call_back_outlives_a_statement_that_ran_out
        a_call_back_serves_one_change a_call_back_used_between_ready_and_commit_does_not_count
        a_call_back_may_name_the_act_it_is_for;
    tables: a_missing_table_is_said_and_stops_only_this_adapter without_its_key_the_acts_table_is_not_used
        a_row_that_comes_out_otherwise_is_rolled_back a_rule_of_the_table_is_its_own_refusal one_supplier_has_one_row
        another_database_and_other_statements_are_noticed;
    own: statements_of_ones_own statements_that_cannot_work_are_named;
}
