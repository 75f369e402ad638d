//! Random questions: lines and conversations that are nearly right, in the ways in which programs, models and attackers
//! get them wrong. The same seed asks the same questions.

use serde_json::{Value, json};

use crate::stories::own_stories;

/// A stream of numbers from a seed (SplitMix64).
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n.max(1)).expect("fits")).expect("fits")
    }

    /// True once in `n`.
    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// What questions are made of: good lines, and words that mean something somewhere.
pub struct Stock {
    lines: Vec<(Option<String>, String)>,
    stories: Vec<Value>,
    keys: Vec<String>,
    words: Vec<String>,
}

const PROFILES: [&str; 5] = ["pay", "clin", "deploy", "pform", "core"];

/// Characters that have a meaning on a line, look like ones that do, or show nothing.
const CHARACTERS: [&str; 40] = [
    " ",
    "=",
    "+",
    "-",
    ".",
    ":",
    "/",
    " // ",
    "#",
    "_",
    "0",
    "9",
    "a",
    "Z",
    "Y",
    "\u{ff15}",
    "\u{661}",
    "\u{9e6}",
    "é",
    "ß",
    "\u{430}",
    "東",
    "\t",
    "\n",
    "\r",
    "\u{0}",
    "\u{1b}",
    "\u{1c}",
    "\u{7f}",
    "\u{85}",
    "\u{a0}",
    "\u{ad}",
    "\u{200b}",
    "\u{200d}",
    "\u{202e}",
    "\u{2028}",
    "\u{2066}",
    "\u{3000}",
    "\u{feff}",
    "👩\u{200d}💼",
];

const VALUES: [&str; 52] = [
    "20261002",
    "20260229",
    "20240229",
    "20261302",
    "20260431",
    "00000101",
    "2026-10-02",
    "20261002T1405Z",
    "20261001T1200Z",
    "20991231T2359Z",
    "20261002T9999Z",
    "20261332T1200Z",
    "20200101T0000Z",
    "5400.00",
    "5400.0",
    "5400",
    "-5400.00",
    "05400.00",
    "0.00",
    "5,400.00",
    "٥٤٠٠.٠٠",
    "1",
    "0",
    "5",
    "6",
    "-1",
    "01",
    "99",
    "100",
    "101",
    "９",
    "14d",
    "14",
    "d",
    "999999999d",
    "1000000000d",
    "7.2",
    "148/88",
    "7.",
    "Y",
    "N",
    "y",
    "tail",
    "human",
    "exec",
    "all",
    "acc+exec",
    "plan",
    "echo",
    "len:120w+no:em-dash",
    "must:monday-problem",
    "+",
];

impl Stock {
    /// From the package's profiles and conformance file, and stories of our own.
    pub fn load(profiles: &std::path::Path, conformance: &std::path::Path) -> Stock {
        let mut stock = Stock {
            lines: Vec::new(),
            stories: own_stories(),
            keys: Vec::new(),
            words: VALUES.map(str::to_owned).to_vec(),
        };
        for name in PROFILES {
            let text = std::fs::read_to_string(profiles.join(format!("{name}.json"))).expect("a profile");
            stock.vocabulary(&serde_json::from_str(&text).expect("JSON"));
        }
        let text = std::fs::read_to_string(conformance).expect("the conformance file");
        for case in text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        {
            let function = match case["kind"].as_str() {
                Some("readback") => "check-rb",
                Some("presend") => "check-ho",
                Some("done") => "check-dn",
                Some("thread") => "check-thread",
                _ => "",
            };
            if !function.is_empty() {
                let mut story = json!({ "f": function, "profile": case["profile"] });
                for field in ["ho", "rb", "dn", "record", "lines", "now"] {
                    story[field] = case[field].clone();
                }
                if let Some(criteria) = case["expect_acc"].as_str().filter(|text| !text.is_empty()) {
                    story["expect_acc"] = criteria.split('+').collect();
                }
                stock.stories.push(story);
            } else if let Some(line) = case["line"].as_str() {
                stock
                    .lines
                    .push((case["profile"].as_str().map(str::to_owned), line.to_owned()));
            }
        }
        for story in &stock.stories {
            let profile = story["profile"].as_str().map(str::to_owned);
            let named = ["ho", "rb", "dn"]
                .iter()
                .filter_map(|field| story[*field].as_str());
            let listed = story["lines"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            stock
                .lines
                .extend(named.chain(listed).map(|line| (profile.clone(), line.to_owned())));
        }
        assert!(
            stock.lines.len() > 100 && stock.stories.len() > 50 && stock.keys.len() > 40,
            "the stock is full"
        );
        stock
    }

    fn vocabulary(&mut self, profile: &Value) {
        if let Some(slots) = profile["slots"].as_object() {
            self.keys.extend(slots.keys().cloned());
        }
        let slots = profile["slots"].as_array().into_iter().flatten();
        self.keys
            .extend(slots.filter_map(|slot| slot["key"].as_str()).map(str::to_owned));
        for codes in profile["enums"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(_, codes)| codes)
        {
            self.words.extend(
                codes
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(code, _)| code.clone()),
            );
        }
        self.words.extend(
            profile["asks"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(ask, _)| ask.clone()),
        );
    }

    /// One question.
    pub fn question(&self, chance: &mut Chance) -> Value {
        if chance.below(10) < 6 {
            self.line_question(chance)
        } else {
            self.check_question(chance)
        }
    }

    fn line_question(&self, chance: &mut Chance) -> Value {
        let (profile, line) = chance.of(&self.lines).clone();
        let mut line = line;
        for _ in 0..=chance.below(3) {
            line = self.mutated(chance, &line, false);
        }
        let profile = match chance.below(8) {
            0 => Some(chance.of(&PROFILES[..4]).to_string()),
            1 | 2 => None,
            _ => profile,
        };
        json!({ "f": "parse", "profile": profile, "line": line })
    }

    fn check_question(&self, chance: &mut Chance) -> Value {
        let functions = ["check-ho", "check-rb", "check-rb", "check-dn", "check-thread"];
        let function = *chance.of(&functions);
        let about: Vec<&Value> = self
            .stories
            .iter()
            .filter(|story| story["f"] == function)
            .collect();
        let mut story = (*chance.of(&about)).clone();
        for _ in 0..=chance.below(2) {
            let fields: Vec<&str> = ["ho", "rb", "dn", "record", "lines", "expect_acc", "now"]
                .into_iter()
                .filter(|field| !story[*field].is_null())
                .collect();
            let field = *chance.of(&fields);
            story[field] = match field {
                "record" => self.record(chance, &story["record"]),
                "lines" => self.thread(chance, &story["lines"]),
                "expect_acc" => self.criteria(chance, &story["expect_acc"]),
                "now" => json!(*chance.of(&["20261001T1200Z", "20991231T2359Z", "20200101T0000Z"])),
                line => json!(self.mutated(chance, story[line].as_str().unwrap_or_default(), true)),
            };
        }
        let now = story["now"].as_str().unwrap_or_default();
        if story["f"] == "check-rb" && now.is_empty() {
            story["now"] = json!("20261001T1200Z");
        }
        // With no profile named, lines that name one are judged by another rule: that is a story of its own.
        let text = story.to_string();
        if story["profile"].is_null() && text.contains(" p=") {
            story["profile"] = json!("pay");
        }
        story
    }

    fn record(&self, chance: &mut Chance, record: &Value) -> Value {
        let mut record = record.as_object().cloned().unwrap_or_default();
        let keys: Vec<String> = record.keys().cloned().collect();
        let key = if keys.is_empty() || chance.once_in(4) {
            chance.of(&self.keys).clone()
        } else {
            chance.of(&keys).clone()
        };
        match chance.below(5) {
            0 => drop(record.remove(&key)),
            1 => drop(record.insert(key, json!([chance.of(&self.words), chance.of(&self.words)]))),
            2 => {
                let plain = [json!(true), json!(false), json!(2), json!(100)];
                record.insert(key, chance.of(&plain).clone());
            }
            3 => drop(record.insert(key, json!(chance.of(&self.words)))),
            _ => {
                let old = record.get(&key).and_then(Value::as_str).unwrap_or("x").to_owned();
                record.insert(key, json!(self.characters(chance, &old)));
            }
        }
        Value::Object(record)
    }

    fn thread(&self, chance: &mut Chance, lines: &Value) -> Value {
        let mut lines: Vec<String> = lines
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        let (a, b) = (chance.below(lines.len()), chance.below(lines.len()));
        match chance.below(7) {
            0 if lines.len() > 1 => drop(lines.remove(a)),
            1 => lines.swap(a, b),
            2 => lines.push(lines[a].clone()),
            3 => lines.insert(a, chance.of(&["", "# a remark", "  "]).to_string()),
            4 => lines.push(chance.of(&self.lines).1.clone()),
            _ => lines[a] = self.mutated(chance, &lines[a], true),
        }
        json!(lines)
    }

    fn criteria(&self, chance: &mut Chance, criteria: &Value) -> Value {
        let mut all: Vec<String> = criteria
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        let at = chance.below(all.len());
        match chance.below(3) {
            0 if all.len() > 1 => drop(all.remove(at)),
            1 => all.push(
                chance
                    .of(&[
                        "no:em-dash",
                        "must:risk",
                        "len:120w",
                        "tone:plain",
                        "lang:uk",
                        "x:y",
                    ])
                    .to_string(),
            ),
            _ => all[at] = self.characters(chance, &all[at]),
        }
        json!(all)
    }

    /// A line, wrong in one more way; `meaning` prefers what changes what it says over what breaks it.
    fn mutated(&self, chance: &mut Chance, line: &str, meaning: bool) -> String {
        match chance.below(if meaning { 6 } else { 3 }) {
            0 => self.characters(chance, line),
            1 => self.whole(chance, line),
            _ => self.tokens(chance, line),
        }
    }

    fn characters(&self, chance: &mut Chance, text: &str) -> String {
        let mut all: Vec<String> = text.chars().map(String::from).collect();
        if all.is_empty() {
            return chance.of(&CHARACTERS).to_string();
        }
        let at = chance.below(all.len());
        match chance.below(6) {
            0 => drop(all.remove(at)),
            1 => all.insert(at, chance.of(&CHARACTERS).to_string()),
            2 => all[at] = chance.of(&CHARACTERS).to_string(),
            3 => all.swap(at, (at + 1) % text.chars().count()),
            4 => all[at] = swapped_case(&all[at]),
            _ => {
                let digits: Vec<usize> = (0..all.len())
                    .filter(|n| all[*n].chars().all(|c| c.is_ascii_digit()))
                    .collect();
                if !digits.is_empty() {
                    let at = *chance.of(&digits);
                    all[at] = chance
                        .of(&["0", "1", "3", "9", "\u{ff10}", "\u{6f3}"])
                        .to_string();
                }
            }
        }
        all.concat()
    }

    fn tokens(&self, chance: &mut Chance, line: &str) -> String {
        let (head, tail) = line
            .split_once(" // ")
            .map_or((line, None), |(head, tail)| (head, Some(tail)));
        let mut tokens: Vec<String> = head.split(' ').map(str::to_owned).collect();
        let at = chance.below(tokens.len());
        let other = chance.below(tokens.len());
        let slot = |token: &str| token.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()));
        match (chance.below(11), slot(&tokens[at])) {
            (0, _) if tokens.len() > 1 => drop(tokens.remove(at)),
            (1, _) => tokens.insert(other, tokens[at].clone()),
            (2, _) => tokens.swap(at, other),
            (3, Some((_, value))) => tokens[at] = format!("{}={value}", chance.of(&self.keys)),
            (4 | 5, Some((key, _))) => tokens[at] = format!("{key}={}", chance.of(&self.words)),
            (6, Some((key, value))) => tokens[at] = format!("{key}={}", self.characters(chance, &value)),
            (7, Some((key, value))) => tokens[at] = format!("{key}={value}+{}", chance.of(&self.words)),
            (8, _) => tokens.push(format!("{}={}", chance.of(&self.keys), chance.of(&self.words))),
            (9, _) if tokens.len() > 2 => {
                let kinds = ["HO", "RB", "AQ", "AN", "ST", "DN", "UN", "FL", "CX"];
                tokens[1] = chance.of(&kinds).to_string();
            }
            (_, Some((key, _))) => tokens[at] = format!("{key}={}", chance.of(&VALUES)),
            _ => tokens[at] = self.characters(chance, &tokens[at].clone()),
        }
        let head = tokens.join(" ");
        tail.map_or(head.clone(), |tail| format!("{head} // {tail}"))
    }

    fn whole(&self, chance: &mut Chance, line: &str) -> String {
        match chance.below(14) {
            0 => format!("{line}\n"),
            1 => format!(" {line} "),
            2 => line.replacen(' ', "  ", 1),
            3 => format!("{line} // {}", "x".repeat(290 + chance.below(20))),
            4 => format!("{line} // a tail with {} in it", chance.of(&CHARACTERS)),
            5 => format!("{line} //"),
            6 => line.replacen("RW1", ["RW2", "rw1", "RW1 RW1", "RW"][chance.below(4)], 1),
            7 => format!("{line} p={}", chance.of(&PROFILES)),
            8 => format!("{line} x_team={}", chance.of(&self.words)),
            9 => format!("{line} colour={}", chance.of(&self.words)),
            10 => line.split(' ').rev().collect::<Vec<_>>().join(" "),
            11 => line.chars().take(chance.below(line.chars().count())).collect(),
            12 if chance.once_in(8) => format!("{line} x_long={}", "y".repeat(16_000 + chance.below(800))),
            _ => {
                let other = &chance.of(&self.lines).1;
                let cut = |text: &str, n: usize| {
                    text.split(' ')
                        .skip(n)
                        .map(str::to_owned)
                        .collect::<Vec<_>>()
                        .join(" ")
                };
                format!(
                    "{} {}",
                    line.split(' ').take(4).collect::<Vec<_>>().join(" "),
                    cut(other, 4)
                )
            }
        }
    }
}

fn swapped_case(text: &str) -> String {
    let upper = text.to_uppercase();
    if upper == text { text.to_lowercase() } else { upper }
}
