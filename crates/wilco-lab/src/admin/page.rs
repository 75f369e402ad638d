//! `GET /lab/`: the lab at a glance, for people. Plain HTML and plain forms; nothing is loaded from anywhere, and every
//! text that came from outside is escaped on its way into a cell.

use std::{fmt::Write, sync::Arc};

use axum::{
    body::Bytes,
    extract::{State, rejection::BytesRejection},
    http::{HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Redirect, Response},
};
use serde_json::Value;

use super::{
    Office, SHOWN,
    form::Form,
    house::same_token,
    problem::Problem,
    records::{git_report, places, releases_report},
};
use crate::{
    book::{PaymentLine, WaitingConsent},
    fault::Endpoint,
    http::escape,
    knob::{Counterparty, FaultSpec},
};

/// Nothing but what stands in the page itself; forms go nowhere else; no other page may frame it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}\
table{border-collapse:collapse;margin:.5rem 0}td,th{border:1px solid #bbb;padding:.2rem .5rem;text-align:left;\
vertical-align:top;overflow-wrap:anywhere}th{background:#eee}form{display:inline}h2{margin-top:2rem}\
.notice{background:#fff3c4;border:1px solid #c90;padding:.5rem .8rem}";

/// `GET /lab`
pub async fn moved() -> Redirect {
    Redirect::permanent("/lab/")
}

/// `GET /lab/`
pub async fn show(State(office): State<Arc<Office>>) -> Response {
    let mut body = String::new();
    whereabouts(&office, &mut body);
    // What one of them cannot tell must not hide what the others can.
    let sections = [
        ("Faults", faults(&office).await),
        ("Consents waiting for a person", consents(&office).await),
        ("Bank: last payments", payments(&office).await),
        ("Vendor table", vendors(&office).await),
        ("Mail drop: last mails", mails(&office).await),
        ("Git remote", pushes(&office).await),
        ("Release folder", releases(&office).await),
    ];
    for (title, section) in sections {
        let _ = write!(body, "<h2>{title}</h2>");
        match section {
            Ok(section) => body.push_str(&section),
            Err(problem) => {
                let _ = write!(body, "<p>{}</p>", escape(&problem.error));
            }
        }
    }
    page(StatusCode::OK, &body)
}

/// The form that arms a fault.
pub async fn fault_arm(
    State(office): State<Arc<Office>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Redirect, Response> {
    let form = own_form(&office, body)?;
    let mut text = form.text("fault").to_owned();
    for (name, otherwise) in [("times", Some("1")), ("seconds", None)] {
        match (form.text(name), otherwise) {
            ("", None) => {}
            ("", Some(otherwise)) => text = format!("{text}:{otherwise}"),
            (value, _) => text = format!("{text}:{value}"),
        }
    }
    let spec: FaultSpec = text.parse().map_err(|problem| sorry(Problem::from(problem)))?;
    office.all.arm(&spec).await.map_err(sorry)?;
    Ok(Redirect::to("/lab/"))
}

/// The form that disarms all faults.
pub async fn fault_clear(
    State(office): State<Arc<Office>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Redirect, Response> {
    own_form(&office, body)?;
    office.all.clear().await.map_err(sorry)?;
    Ok(Redirect::to("/lab/"))
}

/// The form that answers a consent for its account holder.
pub async fn consent_answer(
    State(office): State<Arc<Office>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Redirect, Response> {
    let form = own_form(&office, body)?;
    let yes = match form.text("answer") {
        "authorise" => true,
        "reject" => false,
        _ => {
            return Err(sorry(Problem::field(
                "answer",
                "must be one of authorise, reject",
            )));
        }
    };
    let bank = &office.all.bank;
    bank.book
        .consent_answer(form.text("consent"), yes, &bank.clock.stamp())
        .await
        .map_err(sorry)?;
    Ok(Redirect::to("/lab/"))
}

/// A form of the page that this lab showed.
fn own_form(office: &Office, body: Result<Bytes, BytesRejection>) -> Result<Form, Response> {
    let body = body.map_err(|rejection| sorry(Problem::new(rejection.status(), rejection.body_text())))?;
    let form = Form::read(&body).map_err(sorry)?;
    if !same_token(form.text("token"), &office.page_token) {
        let why = "this form is not of the page that the lab shows now: go back, load the page again";
        return Err(sorry(Problem::new(StatusCode::FORBIDDEN, why)));
    }
    Ok(form)
}

fn sorry(problem: impl Into<Problem>) -> Response {
    let problem = problem.into();
    let body = format!(
        "<p>{}</p><p><a href=\"/lab/\">Back</a></p>",
        escape(&problem.error)
    );
    page(problem.status, &body)
}

fn page(status: StatusCode, body: &str) -> Response {
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Wilco lab</title><style>{STYLE}</style>\
         <h1>Wilco lab</h1><p class=\"notice\"><strong>NONE OF THIS IS REAL.</strong> No money moves, no mail is sent \
         on, nothing is deployed: these are counterparties to practise on, on loopback only.</p>{body}</html>\n"
    );
    let mut response = (status, Html(html)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

fn whereabouts(office: &Office, body: &mut String) {
    let places = places(&office.all);
    let mut rows = Vec::new();
    for counterparty in Counterparty::ALL {
        let Some(Value::Object(place)) = places.get(counterparty.word()) else {
            continue;
        };
        for (what, at) in place {
            let at = at.as_str().map_or_else(|| at.to_string(), str::to_owned);
            rows.push(vec![counterparty.word().to_owned(), what.clone(), at]);
        }
    }
    let bank = &office.all.bank;
    let consents = if bank.manual {
        "a person authorises each consent"
    } else {
        "consents are authorised at once"
    };
    let _ = write!(
        body,
        "<h2>Who is here</h2>{}<p>Bank time {}; {consents}. As JSON: <a href=\"/lab/counterparties\">counterparties</a>, \
         <a href=\"/lab/book\">book</a>, <a href=\"/lab/vendors\">vendors</a>, <a href=\"/lab/mail\">mail</a>, \
         <a href=\"/lab/git\">git</a>, <a href=\"/lab/releases\">releases</a>, <a href=\"/lab/faults\">faults</a>.</p>",
        table(&["counterparty", "what", "where"], rows),
        escape(&bank.clock.stamp().shown),
    );
}

async fn faults(office: &Office) -> Result<String, Problem> {
    let armed = office.all.armed().await?;
    let rows = armed.iter().map(|spec| {
        let seconds = spec.to_json();
        let seconds = seconds.get("seconds").and_then(Value::as_f64);
        let name = spec.to_string();
        let mut words = name.splitn(3, ':').map(str::to_owned);
        vec![
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
            spec.times.to_string(),
            seconds.map_or("until cleared".into(), |seconds| format!("{seconds:.1}")),
        ]
    });
    let mut html = if armed.is_empty() {
        "<p>None is armed.</p>".to_owned()
    } else {
        table(&["counterparty", "fault", "times", "seconds"], rows.collect())
    };
    let mut choices = String::new();
    for counterparty in Counterparty::ALL {
        let places = match counterparty {
            Counterparty::Bank => Endpoint::ALL
                .map(|endpoint| format!("bank/{}", endpoint.word()))
                .to_vec(),
            other => vec![other.word().to_owned()],
        };
        for place in places {
            let _ = write!(choices, "<optgroup label=\"{place}\">");
            for fault in counterparty.faults() {
                // Not every fault of the bank is for every endpoint.
                if format!("{place}:{fault}").parse::<FaultSpec>().is_err() {
                    continue;
                }
                let _ = write!(
                    choices,
                    "<option value=\"{place}:{fault}\">{place} {fault}</option>"
                );
            }
            choices.push_str("</optgroup>");
        }
    }
    let token = token_field(office);
    let _ = write!(
        html,
        "<form method=\"post\" action=\"/lab/page/faults\">{token}<select name=\"fault\">{choices}</select> \
         <label>times <input name=\"times\" size=\"5\" value=\"1\"></label> \
         <label>seconds <input name=\"seconds\" size=\"5\"></label> <button>Arm</button></form> \
         <form method=\"post\" action=\"/lab/page/faults/clear\">{token}<button>Clear all</button></form>"
    );
    Ok(html)
}

async fn consents(office: &Office) -> Result<String, Problem> {
    let last = u32::try_from(SHOWN).unwrap_or(u32::MAX);
    let waiting = office.all.bank.book.consents_waiting(last).await?;
    if waiting.is_empty() {
        return Ok("<p>None.</p>".to_owned());
    }
    let mut html = String::from("<table>");
    html.push_str(
        "<tr><th>amount</th><th>to</th><th>account</th><th>reference</th><th>paid</th><th>since</th><th></th></tr>",
    );
    for consent in &waiting {
        let _ = write!(html, "<tr>{}</tr>", waiting_row(office, consent));
    }
    html.push_str("</table>");
    Ok(html)
}

fn waiting_row(office: &Office, consent: &WaitingConsent) -> String {
    let at = |path: &str| {
        consent
            .initiation
            .pointer(path)
            .and_then(Value::as_str)
            .unwrap_or("")
    };
    let amount = format!(
        "{} {}",
        at("/InstructedAmount/Amount"),
        at("/InstructedAmount/Currency")
    );
    let when = match at("/RequestedExecutionDateTime") {
        "" => "at once",
        when => when,
    };
    let cells = [
        amount.as_str(),
        at("/CreditorAccount/Name"),
        at("/CreditorAccount/Identification"),
        at("/EndToEndIdentification"),
        when,
        &consent.created_at,
    ];
    let mut row: String = cells.map(|cell| format!("<td>{}</td>", escape(cell))).concat();
    let _ = write!(
        row,
        "<td><form method=\"post\" action=\"/lab/page/consents\">{}<input type=\"hidden\" name=\"consent\" value=\"{}\">\
         <button name=\"answer\" value=\"authorise\">Authorise</button> \
         <button name=\"answer\" value=\"reject\">Reject</button></form></td>",
        token_field(office),
        escape(&consent.consent_id),
    );
    row
}

async fn payments(office: &Office) -> Result<String, Problem> {
    let bank = &office.all.bank;
    let report = bank.book.report(&bank.clock.stamp()).await?;
    let line = |payment: &PaymentLine| {
        vec![
            payment.reference.clone(),
            format!("{} {}", payment.amount, payment.currency),
            payment.creditor_account.clone(),
            format!("{} ({})", payment.status, payment.code),
            payment.booked_at.clone().unwrap_or_default(),
        ]
    };
    let rows = report.payments.iter().rev().take(SHOWN).map(line).collect();
    let payments = table(&["reference", "amount", "to", "status", "booked"], rows);
    let rows = report.scheduled.iter().rev().take(SHOWN).map(|order| {
        let mut cells = line(&order.payment);
        cells.push(order.day.clone());
        cells
    });
    let heads = ["reference", "amount", "to", "status", "booked", "day"];
    let payments = payments + "<h3>Scheduled</h3>" + &table(&heads, rows.collect()) + "<h3>Balances</h3>";
    let rows = report.accounts.iter().map(|account| {
        vec![
            account.account.clone(),
            account.name.clone(),
            format!("{} {}", account.balance, account.currency),
        ]
    });
    Ok(payments + &table(&["account", "holder", "balance"], rows.collect()))
}

async fn vendors(office: &Office) -> Result<String, Problem> {
    let last = u32::try_from(SHOWN).unwrap_or(u32::MAX);
    let report = office.all.vendors()?.report(last).await?;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let rows = report.vendors.iter().map(|vendor| {
        vec![
            vendor.sup.clone(),
            text(&vendor.name),
            vendor.acct.clone(),
            text(&vendor.eff),
            text(&vendor.phone),
            text(&vendor.apref),
        ]
    });
    let vendors = table(&["sup", "name", "acct", "eff", "phone", "apref"], rows.collect());
    let rows = report.history.iter().map(|change| {
        vec![
            change.at.clone(),
            change.sup.clone(),
            text(&change.old),
            text(&change.new),
            text(&change.apref),
        ]
    });
    let history = table(&["changed at", "sup", "old", "new", "apref"], rows.collect());
    let rows = report.acts.iter().map(|act| {
        vec![
            text(&act.reference),
            text(&act.ask),
            text(&act.sup),
            text(&act.prev),
            text(&act.acct),
            text(&act.at),
        ]
    });
    let acts = table(&["act", "ask", "sup", "prev", "acct", "at"], rows.collect());
    Ok(vendors + "<h3>Its own history</h3>" + &history + "<h3>Acts</h3>" + &acts)
}

async fn mails(office: &Office) -> Result<String, Problem> {
    let mails = office.all.mail()?.records(None, SHOWN).await?;
    let rows = mails.iter().map(|mail| {
        let to = mail
            .to
            .iter()
            .filter_map(|to| to.get("address").and_then(Value::as_str));
        vec![
            mail.at.clone(),
            mail.from.clone(),
            to.collect::<Vec<_>>().join(", "),
            mail.subject.clone().unwrap_or_default(),
            mail.message_id.clone().unwrap_or_default(),
            mail.envid.clone().unwrap_or_default(),
            mail.queue_id.clone(),
            mail.fault.clone().unwrap_or_default(),
        ]
    });
    let heads = [
        "stored",
        "from",
        "to",
        "subject",
        "Message-ID",
        "ENVID",
        "queued as",
        "fault",
    ];
    Ok(table(&heads, rows.collect()))
}

async fn pushes(office: &Office) -> Result<String, Problem> {
    let (refs, pushes) = git_report(office.all.git()?, SHOWN).await?;
    let rows = refs.into_iter().take(5 * SHOWN).map(|(name, at)| vec![name, at]);
    let refs = table(&["ref", "at"], rows.collect());
    let rows = pushes.into_iter().map(|push| {
        let options = push.options.join(" ");
        vec![push.at, push.reference, push.old, push.new, options]
    });
    let moves = table(&["moved", "ref", "old", "new", "push options"], rows.collect());
    Ok(refs + "<h3>Moves</h3>" + &moves)
}

async fn releases(office: &Office) -> Result<String, Problem> {
    let report = releases_report(office.all.releases()?).await?;
    let rows = report.targets.into_iter().map(|target| {
        let current = target.current.unwrap_or_else(|| "(none)".into());
        let runs = target.runs.unwrap_or_else(|| "(nothing)".into());
        vec![target.name, current, runs, target.entries.join(" ")]
    });
    let targets = table(&["target", "current", "runs", "in it"], rows.collect());
    let rows = report.artefacts.into_iter().map(|artefact| {
        let sha256 = artefact.sha256.unwrap_or_else(|| "(large)".into());
        vec![artefact.file, sha256]
    });
    Ok(targets + &table(&["artefact", "sha256"], rows.collect()))
}

/// A table whose cells are escaped.
fn table(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return "<p>Nothing yet.</p>".to_owned();
    }
    let cells = |cells: &mut dyn Iterator<Item = &str>, tag: &str| -> String {
        let cells = cells.map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let mut html = String::from("<table>");
    html.push_str(&cells(&mut heads.iter().copied(), "th"));
    for row in &rows {
        html.push_str(&cells(&mut row.iter().map(String::as_str), "td"));
    }
    html.push_str("</table>");
    html
}

fn token_field(office: &Office) -> String {
    // Hexadecimal: nothing in it to escape.
    format!(
        "<input type=\"hidden\" name=\"token\" value=\"{}\">",
        office.page_token
    )
}
