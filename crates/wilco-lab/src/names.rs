//! Comparing the name a payer gives with the name of the account's holder. Pure.

/// How well two names agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameMatch {
    /// The same, spelling habits aside.
    Match,
    /// Near enough that the holder's name may be shown.
    CloseMatch,
    /// Someone else.
    NoMatch,
}

impl NameMatch {
    /// The word of `POST /lab/confirmation-of-payee`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::CloseMatch => "close_match",
            Self::NoMatch => "no_match",
        }
    }
}

/// How many edits still count as a typing error.
const EDITS_MAX: usize = 2;

/// Compares the name given with the name held.
///
/// Case, punctuation, spacing and the usual short forms (`Ltd`, `&`) do not matter. Close is: at most two typing
/// errors in a name of six letters or more, or every word of the shorter name found in the longer one.
pub fn name_match(given: &str, held: &str) -> NameMatch {
    let (given, held) = (words(given), words(held));
    if given.is_empty() || held.is_empty() {
        return NameMatch::NoMatch;
    }
    if given == held {
        return NameMatch::Match;
    }
    let (given_text, held_text) = (given.join(" "), held.join(" "));
    let long_enough = given_text.chars().count() >= 6;
    if long_enough && edits(&given_text, &held_text) <= EDITS_MAX {
        return NameMatch::CloseMatch;
    }
    let (short, long) = if given.len() <= held.len() {
        (&given, &held)
    } else {
        (&held, &given)
    };
    // A legal form alone says nothing about who it is.
    let telling = short
        .iter()
        .any(|word| word.chars().count() >= 4 && !LEGAL_FORMS.contains(&word.as_str()));
    if telling && short.iter().all(|word| long.contains(word)) {
        return NameMatch::CloseMatch;
    }
    NameMatch::NoMatch
}

const LEGAL_FORMS: [&str; 3] = ["limited", "plc", "llp"];

fn words(name: &str) -> Vec<String> {
    name.to_lowercase()
        .replace('&', " and ")
        .replace(['.', '\''], "")
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| {
            if word == "ltd" {
                "limited".to_owned()
            } else {
                word.to_owned()
            }
        })
        .collect()
}

/// Levenshtein distance. Names are bounded by the caller, so the quadratic table is small.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a_char) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (j, b_char) in b.iter().enumerate() {
            let above = row[j + 1];
            let best = (diagonal + usize::from(a_char != *b_char))
                .min(above + 1)
                .min(left + 1);
            row[j] = left;
            diagonal = above;
            left = best;
        }
        row[b.len()] = left;
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_agree_as_people_would_say() {
        for (given, held, want) in [
            ("Marlow Supplies Ltd", "Marlow Supplies Ltd", NameMatch::Match),
            (
                "MARLOW  supplies limited.",
                "Marlow Supplies Ltd",
                NameMatch::Match,
            ),
            (
                "Harrow Print and Paper LLP",
                "Harrow Print & Paper LLP",
                NameMatch::Match,
            ),
            ("Marlow Suplies Ltd", "Marlow Supplies Ltd", NameMatch::CloseMatch),
            ("Marlow Supplies", "Marlow Supplies Ltd", NameMatch::CloseMatch),
            ("Marlow", "Marlow Supplies Ltd", NameMatch::CloseMatch),
            ("Dalton Freight Ltd", "Marlow Supplies Ltd", NameMatch::NoMatch),
            ("Ltd", "Marlow Supplies Ltd", NameMatch::NoMatch),
            ("", "Marlow Supplies Ltd", NameMatch::NoMatch),
            ("...", "...", NameMatch::NoMatch),
        ] {
            assert_eq!(name_match(given, held), want, "{given} / {held}");
        }
    }

    #[test]
    fn distance_is_levenshtein() {
        for (a, b, want) in [
            ("kitten", "sitting", 3),
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("abcd", "acd", 1),
        ] {
            assert_eq!(edits(a, b), want, "{a} {b}");
            assert_eq!(edits(b, a), want, "{b} {a}");
        }
    }
}
