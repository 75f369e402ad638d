//! The counter: routes, what every answer carries, and pages for people.

mod knobs;
mod pisp;

use std::sync::Arc;

use axum::{
    Router,
    extract::{DefaultBodyLimit, State},
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware,
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};

use crate::{
    bank::{Answer, Bank},
    obie::Version,
};

/// The header that every answer carries.
pub const NOTICE_HEADER: &str = "x-wilco-lab";
/// What it says.
pub const NOTICE: &str = "this is not a bank: a laboratory on loopback, no real money moves";

/// The largest body anyone may send; a payment is under one kilobyte.
const BODY_MAX: usize = 64 * 1024;

/// Every route of the lab.
///
/// `counterparties` are the routes of everybody but the bank, with their full paths.
pub fn router(bank: Arc<Bank>, counterparties: Router<Arc<Bank>>) -> Router {
    let lab = Router::new()
        .route("/book", get(knobs::book_show))
        .route("/payees", get(knobs::payee_list))
        .route("/payees/{sup}", get(knobs::payee_show).put(knobs::payee_set))
        .route("/confirmation-of-payee", post(knobs::payee_confirm))
        .route("/clock", get(knobs::clock_show).post(knobs::clock_advance))
        .route(
            "/consents/{consent_id}/authorise",
            get(knobs::consent_page).post(knobs::consent_authorise),
        )
        .route("/consents/{consent_id}/reject", post(knobs::consent_reject))
        .route("/settle/{payment_id}", post(knobs::payment_settle))
        .fallback(knobs::no_such_route)
        .method_not_allowed_fallback(knobs::no_such_method);
    Router::new()
        .route("/", get(front_page))
        .nest("/lab", lab)
        .merge(counterparties)
        .nest(Version::V3.prefix(), pisp::router(Version::V3))
        .nest(Version::V4.prefix(), pisp::router(Version::V4))
        .fallback(knobs::no_such_route)
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::map_response(say_it_is_no_bank))
        .with_state(bank)
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        json_response(self.status, &self.body)
    }
}

pub(crate) fn json_response(status: StatusCode, body: &serde_json::Value) -> Response {
    let kind = HeaderValue::from_static("application/json; charset=utf-8");
    (status, [(header::CONTENT_TYPE, kind)], body.to_string()).into_response()
}

async fn say_it_is_no_bank(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(
        HeaderName::from_static(NOTICE_HEADER),
        HeaderValue::from_static(NOTICE),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn front_page(State(bank): State<Arc<Bank>>) -> Html<String> {
    let clock = bank.clock.stamp().shown;
    let consents = if bank.manual {
        "a person authorises each one"
    } else {
        "authorised at once"
    };
    Html(page(
        "Wilco lab: this is not a bank",
        &format!(
            "<p>This is a laboratory counterparty for testing. It listens on loopback only, its money is made up, \
             and nothing it says is a promise of any bank.</p>\
             <ul><li>Bank time: {clock}</li><li>Consents: {consents}</li>\
             <li>Open Banking payment initiation: <code>{three}</code>, <code>{four}</code></li>\
             <li>Messages: {signed}</li>\
             <li><a href=\"/lab/book\">The book</a>, <a href=\"/lab/payees\">the payee register</a>, \
             <a href=\"/lab/\">all counterparties and their faults</a>, <a href=\"/lab/clock\">the clock</a></li></ul>",
            three = Version::V3.prefix(),
            four = Version::V4.prefix(),
            signed = if bank.signing.is_some() {
                "signed ones only"
            } else {
                "signatures are not asked for"
            },
        ),
    ))
}

/// A page for people. `body` is HTML; whoever builds it escapes what came from outside.
fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\
         <h1>{title}</h1><p><strong>THIS IS NOT A BANK. No real money moves.</strong></p>{body}</html>\n"
    )
}

/// Text made safe for a page.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}
