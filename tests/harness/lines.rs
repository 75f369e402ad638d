//! The sender's lines: handoffs, confirmations, cancels.

use serde_json::{Value, json};

use crate::TODAY;

/// A payment somebody approved: the seed's, until a test changes it.
#[derive(Debug, Clone)]
pub struct Payment {
    /// The number in the handoff's id, `<sender>-<number>`.
    pub number: u32,
    /// The sending agent.
    pub sender: String,
    /// The agent that pays.
    pub receiver: String,
    /// What is paid.
    pub item: String,
    /// Who is paid.
    pub sup: String,
    /// How much.
    pub amt: String,
    /// The account as the sender has it.
    pub acct: String,
    /// The payment's date.
    pub paid: String,
    /// The payment's reference: the book shows it.
    pub reference: String,
    /// More slots, in order.
    pub more: Vec<(String, String)>,
}

impl Payment {
    /// The payment of the protocol's own example: 5400.00 GBP to marlow.
    #[must_use]
    pub fn seed() -> Payment {
        Payment {
            number: 1,
            sender: "scheduler".into(),
            receiver: "payer".into(),
            item: "inv:MD-2026-057".into(),
            sup: "marlow".into(),
            amt: "5400.00".into(),
            acct: "40-12-88/61102938".into(),
            paid: TODAY.into(),
            reference: "MD-2026-057".into(),
            more: Vec::new(),
        }
    }

    /// The same payment handed off under another number, with a reference of its own, by which the book is asked.
    #[must_use]
    pub fn number(number: u32) -> Payment {
        Payment {
            number,
            item: format!("inv:MD-2026-{number}"),
            reference: format!("MD-2026-{number}"),
            ..Payment::seed()
        }
    }

    /// With one more slot.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Payment {
        self.more.push((key.into(), value.into()));
        self
    }

    /// The handoff's id.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}-{}", self.sender, self.number)
    }

    /// The HO line.
    #[must_use]
    pub fn ho(&self) -> String {
        let mut line = format!(
            "RW1 HO {} from={} to={} item={} ask=PAY p=pay rb=exec sup={} amt={} cur=GBP kind=GROSS acct={} paid={} \
             ref={} apref=FD-0929",
            self.id(),
            self.sender,
            self.receiver,
            self.item,
            self.sup,
            self.amt,
            self.acct,
            self.paid,
            self.reference
        );
        for (key, value) in &self.more {
            line.push_str(&format!(" {key}={value}"));
        }
        line
    }

    /// The approved record the line was made from.
    #[must_use]
    pub fn record(&self) -> Value {
        json!({
            "to": self.receiver, "item": self.item, "ask": "PAY", "sup": self.sup, "amt": self.amt, "cur": "GBP",
            "kind": "GROSS", "acct": self.acct, "paid": self.paid, "ref": self.reference, "apref": "FD-0929",
        })
    }

    /// The DN that reports it, under `id`, when everything ran as asked.
    #[must_use]
    pub fn dn(&self, id: &str) -> String {
        format!(
            "RW1 DN {id} re={} from={} to={} item={} out=OK p=pay sup={} amt={} cur=GBP kind=GROSS acct={} paid={} \
             ref={} apref=FD-0929",
            self.id(),
            self.receiver,
            self.sender,
            self.item,
            self.sup,
            self.amt,
            self.acct,
            self.paid,
            self.reference
        )
    }
}

/// The sender's yes to a statement: `AN ... val=Y`, under `id`.
#[must_use]
pub fn confirmation(statement: &str, id: &str) -> String {
    answer(statement, id, "Y")
}

/// The sender's no.
#[must_use]
pub fn decline(statement: &str, id: &str) -> String {
    answer(statement, id, "N")
}

fn answer(statement: &str, id: &str, val: &str) -> String {
    let rb = statement.split(' ').nth(2).unwrap_or_default();
    let (from, to) = (slot(statement, "to"), slot(statement, "from"));
    format!("RW1 AN {id} re={rb} from={from} to={to} val={val} p=pay")
}

/// The sender's withdrawal of a handoff, under `id`.
#[must_use]
pub fn cancel_line(payment: &Payment, id: &str) -> String {
    format!(
        "RW1 CX {id} re={} from={} to={} item={} why=REVOKED p=pay",
        payment.id(),
        payment.sender,
        payment.receiver,
        payment.item
    )
}

/// The value of a slot on a line, as written; empty if the line has no such slot.
#[must_use]
pub fn slot<'a>(line: &'a str, key: &str) -> &'a str {
    let body = line.split(" // ").next().unwrap_or(line);
    body.split(' ')
        .find_map(|token| token.strip_prefix(key)?.strip_prefix('='))
        .unwrap_or_default()
}
