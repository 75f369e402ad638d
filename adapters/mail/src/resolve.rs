//! Prepare: every slot gets its value, the message is written, and from then on it is bytes.

use std::collections::{BTreeMap, BTreeSet};

use wilco_adapter::{Job, ResolveError};
use wilco_core::Resolved;
use wilco_core::frozen::{FrozenValue, Request, Source};

use crate::chars::{clean, invisible, on_line, point, steers};
use crate::files::{self, FileDigest, Lost, sha256};
use crate::slots::{self, GENERAL_CARRIED, Kind, NONE, PAY_CARRIED};
use crate::template::{Filled, Missing, SUBJECT_MAX, Template};
use crate::wire::address::Address;
use crate::wire::message::{self, Attachment, HeaderText, Mail};
use crate::{MailAdapter, Way};

/// The template of general mail that names none.
const DEFAULT_TEMPLATE: &str = "note";
/// How many files may go along.
const ATTACHMENTS_MAX: usize = 10;
/// The largest text a digest may name, in bytes.
const TEXT_MAX: u64 = 256 * 1024;

pub(crate) async fn resolve(mail: &MailAdapter, job: &Job) -> Result<Resolved, ResolveError> {
    let kind = kind_of(job)?;
    let template = template(mail, job, kind)?;
    let to = recipient(mail, job, kind).await?;
    let mut stated = Stated::default();
    stated.add("addr", to.address.as_str(), to.source, to.evidence.clone());
    let attachments = match kind {
        Kind::Pay => {
            for slot in PAY_CARRIED {
                let value = needed(job, slot)?;
                stated.add(slot, value, Source::Handoff, "the handoff".to_owned());
            }
            Vec::new()
        }
        Kind::General => attachments(mail, job, &mut stated).await?,
    };
    let shown = shown(mail, job, template, &to.address, &mut stated, kind).await?;
    let filled = template.fill(&shown).map_err(|Missing(slot)| {
        let text = format!(
            "slot {slot} is missing, and template {} shows it",
            template.name()
        );
        refused("NOCTX", text)
    })?;
    let subject = subject(&filled, template)?;
    if kind == Kind::General {
        general(job, template, &subject, &mut stated)?;
    }
    let message_id = message::message_id(job.act_id, job.attempt, &mail.config.domain);
    let body = message::render(&Mail {
        act: job.act_id,
        attempt: job.attempt,
        date: job.now,
        from: &mail.config.from,
        to: &to.address,
        reply_to: mail.config.reply_to.as_ref(),
        subject: &subject,
        message_id: &message_id,
        text: &filled.text,
        html: filled.html.as_deref(),
        attachments: &attachments,
    });
    if body.len() > mail.config.max_message_bytes {
        let text = format!(
            "the message would have {} bytes, max_message_bytes allows {}",
            body.len(),
            mail.config.max_message_bytes
        );
        return Err(refused("SCOPE", text));
    }
    let extra = extra(mail, job, template, &subject, &body);
    let values = job
        .exec
        .iter()
        .map(|slot| stated.take(slot))
        .collect::<Result<_, _>>()?;
    let (method, path, note) = mail.way.frozen(&mail.config.from.address, &to.address);
    Ok(Resolved {
        values,
        extra,
        request: Request {
            method: method.to_owned(),
            path,
            body,
            key: message_id,
        },
        placed: None,
        cut_off: None,
        authorise_at: None,
        notes: vec![note.to_owned()],
    })
}

/// The values of the statement, as they are found.
#[derive(Default)]
struct Stated(BTreeMap<String, FrozenValue>);

impl Stated {
    fn add(&mut self, slot: &str, value: &str, source: Source, evidence: String) {
        let frozen = FrozenValue {
            slot: slot.to_owned(),
            value: value.to_owned(),
            source,
            evidence,
        };
        self.0.insert(slot.to_owned(), frozen);
    }

    fn take(&mut self, slot: &str) -> Result<FrozenValue, ResolveError> {
        let stated = self.0.remove(slot).ok_or_else(|| {
            let text = format!("slot {slot}: no mail can state it, and this adapter does not know it");
            refused("NOCTX", text)
        })?;
        // Also what no reader of the mail sees stands on the statement's line.
        match stated
            .value
            .chars()
            .find(|&c| steers(c) || invisible(c) || c.is_whitespace())
        {
            Some(c) => Err(refused(
                "SCOPE",
                format!("slot {slot}: holds {}, which no line can", point(c)),
            )),
            None => Ok(stated),
        }
    }
}

fn kind_of(job: &Job) -> Result<Kind, ResolveError> {
    match (job.profile.as_str(), job.ask.as_str()) {
        ("pay", "SEND") => Ok(Kind::Pay),
        ("mail", "SEND") => Ok(Kind::General),
        (_, "UNDO") => Err(refused(
            "NOCAP",
            "what was sent cannot be called back; a correction is another mail (ask=SEND)".to_owned(),
        )),
        (profile, ask) => Err(refused(
            "NOCAP",
            format!(
                "mail is sent with p=pay ask=SEND or p=mail ask=SEND, not with p={} ask={}",
                clean(profile, 30),
                clean(ask, 30)
            ),
        )),
    }
}

fn template<'m>(mail: &'m MailAdapter, job: &Job, kind: Kind) -> Result<&'m Template, ResolveError> {
    if kind == Kind::Pay {
        return Ok(&mail.config.pay_template);
    }
    let name = job.slot("tpl").unwrap_or(DEFAULT_TEMPLATE);
    mail.config.templates.get(name).ok_or_else(|| {
        let known: Vec<&str> = mail
            .config
            .templates
            .keys()
            .map(String::as_str)
            .take(20)
            .collect();
        refused(
            "NOCTX",
            format!(
                "slot tpl: there is no template {}; there are {}",
                clean(name, 64),
                known.join(", ")
            ),
        )
    })
}

struct Recipient {
    address: Address,
    source: Source,
    evidence: String,
}

/// Where the mail goes. About a payment, our own register says so where there is one: an address taken from the handoff
/// would prove nothing.
async fn recipient(mail: &MailAdapter, job: &Job, kind: Kind) -> Result<Recipient, ResolveError> {
    let config = &mail.config;
    let (text, source, evidence) = match (kind, &config.contacts) {
        (Kind::Pay, Some(contacts)) => {
            let sup = needed(job, "sup")?;
            match files::contact(contacts, sup).await {
                Ok(addr) => (
                    addr,
                    Source::Resolved,
                    format!("contacts, entry {}", clean(sup, 40)),
                ),
                Err(Lost::Unknown) => {
                    let text = format!("slot sup: the contacts have no entry {}", clean(sup, 40));
                    return Err(refused("NOCTX", text));
                }
                Err(Lost::Passing(text)) => return Err(ResolveError::Passing(text)),
            }
        }
        _ => (
            needed(job, "addr")?.to_owned(),
            Source::Handoff,
            "the handoff".to_owned(),
        ),
    };
    let address = Address::parse(&text, config.smtputf8).map_err(|e| {
        let text = format!(
            "slot addr: {} is not an address mail can go to: {e}",
            clean(&text, 80)
        );
        refused("SCOPE", text)
    })?;
    let domain = address.domain().to_lowercase();
    let allows = |allowed: &String| match allowed.strip_prefix('.') {
        Some(bare) => domain == bare || domain.ends_with(allowed.as_str()),
        None => domain == *allowed,
    };
    if !config.allow_domains.is_empty() && !config.allow_domains.iter().any(allows) {
        let text = format!(
            "slot addr: mail to {} is not allowed here (allow_domains)",
            clean(&domain, 80)
        );
        return Err(refused("PERM", text));
    }
    Ok(Recipient {
        address,
        source,
        evidence,
    })
}

/// The files `att` names.
async fn attachments(
    mail: &MailAdapter,
    job: &Job,
    stated: &mut Stated,
) -> Result<Vec<Attachment>, ResolveError> {
    let Some(value) = job.slot("att").filter(|v| *v != NONE) else {
        stated.add("att", NONE, Source::Resolved, "nothing is attached".to_owned());
        return Ok(Vec::new());
    };
    let mut found: Vec<Attachment> = Vec::new();
    let mut seen = BTreeSet::new();
    for digest in value.split('+') {
        if !seen.insert(digest) {
            return Err(refused(
                "SCOPE",
                format!("slot att names {} twice", clean(digest, 80)),
            ));
        }
        if seen.len() > ATTACHMENTS_MAX {
            return Err(refused(
                "SCOPE",
                format!("slot att names more than {ATTACHMENTS_MAX} files"),
            ));
        }
        let largest = mail.config.max_message_bytes as u64;
        let file = named_file(mail, "att", digest, largest).await?;
        found.push(Attachment {
            name: file.name,
            bytes: file.bytes,
        });
    }
    let names: Vec<String> = found.iter().map(|f| clean(&f.name, 60)).collect();
    stated.add(
        "att",
        value,
        Source::Handoff,
        format!("files of these digests: {}", names.join(", ")),
    );
    Ok(found)
}

async fn named_file(
    mail: &MailAdapter,
    slot: &str,
    digest: &str,
    largest: u64,
) -> Result<files::Found, ResolveError> {
    let Some(folder) = &mail.config.attachments else {
        let text = format!("slot {slot}: no folder of attachments is configured");
        return Err(refused("NOCAP", text));
    };
    let parsed = FileDigest::parse(digest).ok_or_else(|| {
        let rule = "is not sha256: and 64 lowercase hexadecimal digits";
        refused("SCOPE", format!("slot {slot}: {} {rule}", clean(digest, 80)))
    })?;
    match files::by_digest(folder, &parsed, largest).await {
        Ok(file) => Ok(file),
        Err(Lost::Unknown) => {
            let text = format!(
                "slot {slot}: no file of at most {largest} bytes here has {}",
                clean(digest, 80)
            );
            Err(refused("NOCTX", text))
        }
        Err(Lost::Passing(text)) => Err(ResolveError::Passing(text)),
    }
}

/// What each placeholder of the template becomes.
async fn shown(
    mail: &MailAdapter,
    job: &Job,
    template: &Template,
    to: &Address,
    stated: &mut Stated,
    kind: Kind,
) -> Result<BTreeMap<String, String>, ResolveError> {
    let mut values = BTreeMap::new();
    for slot in template.slots() {
        let value = match slot {
            "act" => Some(job.act_id.to_string()),
            "item" => Some(typed(slot, &job.item)?),
            "addr" => Some(to.to_string()),
            "txt" => text(mail, job, stated).await?,
            slot => job
                .slot(slot)
                .filter(|v| *v != NONE)
                .map(|v| typed(slot, v))
                .transpose()?,
        };
        if let Some(value) = value {
            values.insert(slot.to_owned(), value);
        }
    }
    // Every figure of a payment is checked, also where the template does not show it.
    if kind == Kind::Pay {
        for slot in PAY_CARRIED {
            typed(slot, needed(job, slot)?)?;
        }
    }
    Ok(values)
}

/// The words of `txt`, or of the file it names.
async fn text(mail: &MailAdapter, job: &Job, stated: &mut Stated) -> Result<Option<String>, ResolveError> {
    let Some(value) = job.slot("txt").filter(|v| *v != NONE) else {
        return Ok(None);
    };
    if !FileDigest::is_meant(value) {
        let words = typed("txt", value)?;
        stated.add("txt", value, Source::Handoff, "the handoff".to_owned());
        return Ok(Some(words));
    }
    let file = named_file(mail, "txt", value, TEXT_MAX).await?;
    let wrong = |rule: &str| {
        refused(
            "SCOPE",
            format!("slot txt: the file {} {rule}", clean(&file.name, 60)),
        )
    };
    let text = std::str::from_utf8(&file.bytes).map_err(|_| wrong("is not UTF-8"))?;
    let text = text
        .strip_prefix('\u{feff}')
        .unwrap_or(text)
        .replace("\r\n", "\n");
    if let Some(c) = text.chars().find(|&c| steers(c) && c != '\n' && c != '\t') {
        return Err(wrong(&format!(
            "holds {}, which may not stand in a mail",
            point(c)
        )));
    }
    let evidence = format!("the file {}", clean(&file.name, 60));
    stated.add("txt", value, Source::Handoff, evidence);
    Ok(Some(text.trim_end_matches('\n').to_owned()))
}

fn subject(filled: &Filled, template: &Template) -> Result<HeaderText, ResolveError> {
    let subject = filled.subject.trim();
    let length = subject.chars().count();
    if !(1..=SUBJECT_MAX).contains(&length) {
        let text = format!(
            "the subject of template {} would have {length} characters, 1 to {SUBJECT_MAX} are allowed",
            template.name()
        );
        return Err(refused("SCOPE", text));
    }
    HeaderText::new(subject).map_err(|rule| refused("SCOPE", format!("the subject {rule}")))
}

/// What a statement of general mail says besides the address and the attachments.
fn general(
    job: &Job,
    template: &Template,
    subject: &HeaderText,
    stated: &mut Stated,
) -> Result<(), ResolveError> {
    let source = |slot: &str| match job.slot(slot) {
        Some(_) => (Source::Handoff, "the handoff".to_owned()),
        None => (Source::Resolved, "the handoff names none".to_owned()),
    };
    let (from, evidence) = source("tpl");
    stated.add("tpl", template.name(), from, evidence);
    let (from, evidence) = source("apref");
    stated.add("apref", job.slot("apref").unwrap_or(NONE), from, evidence);
    for slot in ["subj", "txt"] {
        if job.slot(slot).is_some_and(|v| v != NONE) && !template.shows(slot) {
            let text = format!(
                "slot {slot}: template {} has its own; leave the slot out",
                template.name()
            );
            return Err(refused("SCOPE", text));
        }
    }
    match job.slot("subj").filter(|v| *v != NONE) {
        Some(value) => stated.add("subj", value, Source::Handoff, "the handoff".to_owned()),
        None => {
            let evidence = format!("template {}", template.name());
            stated.add("subj", &on_line(subject.as_str()), Source::Resolved, evidence);
        }
    }
    if !stated.0.contains_key("txt") {
        let evidence = "the template has its own".to_owned();
        stated.add("txt", NONE, Source::Resolved, evidence);
    }
    Ok(())
}

/// What the statement says beside the execution slots: the digest of the message, its subject, whom it is from, who else
/// gets it, and every other value its reader will see.
fn extra(
    mail: &MailAdapter,
    job: &Job,
    template: &Template,
    subject: &HeaderText,
    body: &str,
) -> Vec<(String, String)> {
    let mut extra = vec![
        ("x_body".to_owned(), sha256(body.as_bytes())),
        ("x_subj".to_owned(), on_line(subject.as_str())),
        ("x_from".to_owned(), mail.config.from.address.to_string()),
    ];
    if let Way::Smtp(server) = &mail.way
        && let Some(archive) = &server.smtp.config.archive_bcc
    {
        extra.push(("x_bcc".to_owned(), archive.to_string()));
    }
    for slot in template.slots() {
        if ["act", "item"].contains(&slot) || job.exec.iter().any(|e| e == slot) {
            continue;
        }
        if let Some(value) = job.slot(slot) {
            let key = match slot.starts_with("x_") {
                true => slot.to_owned(),
                false => format!("x_{slot}"),
            };
            extra.push((key, value.to_owned()));
        }
    }
    extra
}

fn typed(slot: &str, value: &str) -> Result<String, ResolveError> {
    slots::shown(slot, value).map_err(|rule| refused("SCOPE", format!("slot {slot}: {rule}")))
}

fn needed<'j>(job: &'j Job, slot: &str) -> Result<&'j str, ResolveError> {
    job.slot(slot)
        .ok_or_else(|| refused("NOCTX", format!("slot {slot} is missing, and a mail needs it")))
}

fn refused(why: &'static str, text: String) -> ResolveError {
    ResolveError::Refused { why, text }
}

/// The execution slots the done report carries from the statement.
pub(crate) fn carried(kind: Kind) -> Vec<String> {
    let slots = match kind {
        Kind::Pay => PAY_CARRIED,
        Kind::General => GENERAL_CARRIED,
    };
    slots.map(str::to_owned).to_vec()
}
