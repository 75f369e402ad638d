//! The lab beyond the bank's counter: what every counterparty has on record, the faults armed at each, and a page for
//! people.
//!
//! ```text
//! house     who may ask at all: browsers from here, no other site through them
//!   records   each counterparty's own record, as JSON
//!   faults    POST, GET and DELETE /lab/faults
//!   page      GET /lab/, and the forms on it
//! ```

mod faults;
mod form;
mod house;
mod page;
mod problem;
mod records;

use std::sync::Arc;

use axum::{
    Router, middleware,
    routing::{get, post},
};

use crate::{bank::Bank, counterparties::Counterparties};

pub(crate) use house::page_token;

/// How many lines of each record are shown.
const SHOWN: usize = 20;

/// What the routes share.
#[derive(Debug)]
pub struct Office {
    /// Everybody.
    pub all: Arc<Counterparties>,
    /// Stands in every form of the page; who does not know it has not seen the page.
    pub page_token: String,
}

/// Every route, with its full path.
pub fn router(office: Arc<Office>) -> Router<Arc<Bank>> {
    Router::new()
        .route("/lab", get(page::moved))
        .route("/lab/", get(page::show))
        .route("/lab/page/faults", post(page::fault_arm))
        .route("/lab/page/faults/clear", post(page::fault_clear))
        .route("/lab/page/consents", post(page::consent_answer))
        .route(
            "/lab/faults",
            get(faults::list).post(faults::arm).delete(faults::clear),
        )
        .route("/lab/counterparties", get(records::counterparties))
        .route("/lab/vendors", get(records::vendors))
        .route("/lab/mail", get(records::mail))
        .route("/lab/git", get(records::git))
        .route("/lab/releases", get(records::releases))
        .method_not_allowed_fallback(problem::no_such_method)
        .layer(middleware::from_fn(house::only_from_here))
        .with_state(office)
}
