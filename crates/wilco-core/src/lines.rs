//! The lines Wilco writes: their ids, and their form.
//!
//! Ids are short, because models copy them: `<agent>-<n>` with n the handoff's own number followed by two digits that
//! count our lines for it, so `scheduler-1` is read back as `payer-101` and done as `payer-102`. No counter is kept
//! that acts would contend for; uniqueness within the thread is the store's. Where a short id is taken (another
//! sender's handoff of the same number), and past 99 lines, n is the decimal of the act's random bits and four digits.

use rw1::{Draft, Kind, Profiles};

use crate::{Act, Reason, Refusal};

/// Our lines for one act, numbered as they are written.
const SHORT_LINES: u32 = 99;
const SHORT_NUMBER_DIGITS: usize = 9;

/// Takes the next message id for a line of ours about `act`, from the act's receiver.
pub fn next_id(act: &mut Act) -> String {
    act.lines += 1;
    let agent = &act.handoff.receiver;
    let number = handoff_number(&act.handoff.id);
    if !act.long_ids && act.lines <= SHORT_LINES && !number.is_empty() && number.len() <= SHORT_NUMBER_DIGITS
    {
        format!("{agent}-{number}{:02}", act.lines)
    } else {
        format!("{agent}-{}{:04}", act.act_id.random_bits(), act.lines)
    }
}

/// The number at the end of a message id (`scheduler-1` gives `1`); empty if it has none.
fn handoff_number(id: &str) -> &str {
    let number = id.rsplit('-').next().unwrap_or("");
    if number.bytes().all(|b| b.is_ascii_digit()) {
        number
    } else {
        ""
    }
}

/// A line of ours that answers `re`, from the act's receiver to its sender.
pub struct Reply<'a> {
    kind: Kind,
    re: &'a str,
    slots: Vec<(String, String)>,
    tail: Option<String>,
    with_item: bool,
}

impl<'a> Reply<'a> {
    /// An answer of the given type.
    #[must_use]
    pub fn new(kind: Kind, re: &'a str) -> Reply<'a> {
        Reply {
            kind,
            re,
            slots: Vec::new(),
            tail: None,
            with_item: true,
        }
    }

    /// With a slot.
    #[must_use]
    pub fn slot(mut self, key: &str, value: impl Into<String>) -> Reply<'a> {
        self.slots.push((key.to_owned(), value.into()));
        self
    }

    /// With a tail: cut to the 300 characters RW1 allows, and cleaned of characters a line may not carry.
    #[must_use]
    pub fn tail(mut self, text: &str) -> Reply<'a> {
        self.tail = Some(tail(text));
        self
    }

    /// Without the handoff's item (an AN about a cancel).
    #[must_use]
    pub fn without_item(mut self) -> Reply<'a> {
        self.with_item = false;
        self
    }

    /// Writes it for `act` under `id`.
    ///
    /// # Errors
    /// The problems `rw1::encode` finds: a value that cannot stand on a line.
    pub fn write(self, profiles: &Profiles, act: &Act, id: &str) -> Result<String, Vec<rw1::Problem>> {
        let profile = known_profile(profiles, &act.handoff.profile);
        let mut slots = self.slots;
        if let Some(p) = profile {
            slots.insert(0, ("p".to_owned(), p.to_owned()));
        }
        let item = &act.handoff.item;
        let draft = Draft {
            kind: self.kind,
            id: id.to_owned(),
            re: Some(self.re.to_owned()),
            from: act.handoff.receiver.clone(),
            to: act.handoff.sender.clone(),
            item: (self.with_item && !item.is_empty()).then(|| item.clone()),
            slots,
            tail: self.tail,
        };
        rw1::encode(profiles, profile, &draft)
    }

    /// Writes a line made of our own words alone, which cannot fail to be one.
    ///
    /// # Errors
    /// A refusal that names the problem, should it be no line after all: nothing is written then.
    pub fn write_ours(self, profiles: &Profiles, act: &Act, id: &str) -> Result<String, Refusal> {
        let kind = self.kind;
        self.write(profiles, act, id).map_err(|problems| {
            let texts: Vec<String> = problems.into_iter().map(|p| p.text).collect();
            Refusal::new(
                Reason::Malformed,
                format!(
                    "the {} that answers this cannot be written: {}",
                    kind.as_str(),
                    texts.join("; ")
                ),
            )
        })
    }
}

/// The profile's name if it is loaded: a UN about an unknown profile cannot carry it.
fn known_profile<'a>(profiles: &Profiles, name: &'a str) -> Option<&'a str> {
    (!name.is_empty() && profiles.get(name).is_some()).then_some(name)
}

const TAIL_CHARS: usize = 300;

/// Text made fit for a tail.
#[must_use]
pub fn tail(text: &str) -> String {
    let clean: String = text
        .chars()
        .map(|c| if fits_a_tail(c) { c } else { ' ' })
        .collect();
    let words: Vec<&str> = clean.split(' ').filter(|w| !w.is_empty()).collect();
    let joined = words.join(" ");
    if joined.chars().count() <= TAIL_CHARS {
        joined
    } else {
        let mut cut: String = joined.chars().take(TAIL_CHARS - 1).collect();
        cut.push('…');
        cut
    }
}

fn fits_a_tail(c: char) -> bool {
    !c.is_control()
        && !c.is_whitespace()
        && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{061c}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::an_act;

    #[test]
    fn ids_are_the_handoffs_number_and_a_count() {
        let mut act = an_act();
        assert_eq!(next_id(&mut act), "payer-101");
        assert_eq!(next_id(&mut act), "payer-102");
        act.lines = 98;
        assert_eq!(next_id(&mut act), "payer-199");
        let long = next_id(&mut act);
        assert!(
            long.starts_with("payer-") && long.ends_with("0100") && long.len() > 12,
            "{long}"
        );
    }

    #[test]
    fn a_taken_or_huge_number_gets_a_long_id() {
        let mut act = an_act();
        act.long_ids = true;
        let bits = act.act_id.random_bits();
        assert_eq!(next_id(&mut act), format!("payer-{bits}0001"));
        let mut act = an_act();
        act.handoff.id = format!("scheduler-{}", "9".repeat(40));
        assert_eq!(next_id(&mut act), format!("payer-{bits}0001"));
    }

    #[test]
    fn a_tail_is_cut_and_cleaned() {
        assert_eq!(tail("a\nb\u{202e}c   d"), "a b c d");
        assert_eq!(tail(&"x".repeat(400)).chars().count(), 300);
    }
}
