//! What holds for every input: nothing panics, what is written reads back as the same facts, and the fingerprint does
//! not depend on the order in which the facts are written.

use proptest::prelude::*;
use rw1::{Draft, Gate, Kind, MakeRb, Profiles, RbCheck, Record};

const HO: &str =
    "RW1 HO scheduler-1 from=scheduler to=payer item=inv:7 ask=PAY p=pay rb=exec amt=5400.00 cur=GBP";

/// Texts near the grammar: pieces of real lines, joined by what joins them, with some noise.
fn nearly_a_line() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "RW1", "HO", "RB", "AQ", "AN", "DN", "CX", "ST", "scheduler-1", "payer-1", "from=scheduler", "to=payer",
            "item=inv:7", "ask=PAY", "ask=FIX", "p=pay", "p=deploy", "rb=exec", "rb=all", "rb=acc+pri", "amt=5400.00",
            "cur=GBP", "out=OK", "re=scheduler-1", "re=payer-1", "need=ENUM", "opts=APPROVE", "val=Y", "val=tail",
            "acc=len:120w+must:monday-problem", "not=x", "keys=len", "exp=20261002T0905Z", "due=20261002", "//", "",
            "keep=+", "pri=02", "h=a7a82de76607", "x_tok=1",
        ]).prop_map(str::to_owned),
        1 => "[a-z]{1,4}=.{0,12}",
        1 => ".{0,8}",
    ];
    (
        prop::collection::vec(piece, 0..24),
        prop_oneof![9 => Just(" "), 1 => Just("  ")],
    )
        .prop_map(|(p, by)| p.join(by))
}

/// A draft that may well be valid, under the pay profile.
fn draft() -> impl Strategy<Value = Draft> {
    let amount = "(0|[1-9][0-9]{0,8})\\.[0-9]{2}";
    let slots = (
        prop::option::of(amount.prop_map(|v| ("amt", v))),
        prop::option::of("[!-~]{1,20}".prop_map(|v| ("acct", v))),
        prop::option::of("[A-Za-zé東]{1,9}".prop_map(|v| ("sup", v))),
        prop::option::of("[0-9]{1,3}".prop_map(|v| ("n", v))),
        prop::option::of(prop::collection::vec("[a-z:0-9]{1,6}", 1..4).prop_map(|v| ("src", v.join("+")))),
        prop::option::of("[!-~]{1,9}".prop_map(|v| ("x_note", v))),
    );
    (
        1u32..9999,
        "[a-z:0-9#/]{1,12}",
        slots,
        prop::option::of("[ -~é]{0,80}"),
    )
        .prop_map(|(n, item, slots, tail)| {
            let mut draft = Draft::new(Kind::St, format!("payer-{n}"), "payer", "scheduler")
                .item(item)
                .slot("p", "pay");
            let (a, b, c, d, e, f) = slots;
            for (key, value) in [a, b, c, d, e, f].into_iter().flatten() {
                draft = draft.slot(key, value);
            }
            draft.tail = tail;
            draft
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_anything_panic(a in nearly_a_line(), b in nearly_a_line(), c in ".{0,60}") {
        let profiles = Profiles::builtin();
        let mut record = Record::new();
        record.insert(c.clone(), a.clone().into());
        let now = Some("20261002T0905Z");
        for profile in [None, Some("pay"), Some("nope")] {
            for (one, two) in [(&a, &b), (&b, &c), (&c, &a)] {
                let parsed = rw1::parse(&profiles, profile, one);
                prop_assert!(parsed.message.is_some() || !parsed.errors.is_empty());
                let _ = rw1::parse_strict(&profiles, profile, one);
                let _ = rw1::check_ho(&profiles, profile, one, &record);
                let _ = rw1::check_rb(&profiles, profile, one, two, RbCheck { expect_acc: Some(std::slice::from_ref(&c)), now });
                let _ = rw1::check_dn(&profiles, profile, one, two, Some(HO), now);
                let _ = rw1::check_thread(&profiles, profile, &[one, two, HO], Some(&c));
                let _ = rw1::make_rb(&profiles, profile, one, two, &MakeRb { acc: vec![c.clone()], ..MakeRb::default() });
                let _ = rw1::gate(&profiles, profile, Gate { ho: one, rb: Some(two), dn: Some(&c), ..Gate::default() });
                let _ = rw1::from_json(&profiles, profile, one);
                let _ = Profiles::from_texts([(one.clone(), two.clone())]);
            }
        }
    }

    #[test]
    fn what_strict_accepts_lenient_accepts_without_a_warning(line in nearly_a_line()) {
        let profiles = Profiles::builtin();
        if let Ok(message) = rw1::parse_strict(&profiles, None, &line) {
            let parsed = rw1::parse(&profiles, None, &line);
            prop_assert_eq!(parsed.message.as_ref(), Some(&message));
            prop_assert!(parsed.errors.is_empty() && parsed.warnings.is_empty());
        }
    }

    #[test]
    fn an_accepted_line_survives_the_json_form(line in nearly_a_line()) {
        let profiles = Profiles::builtin();
        if let Ok(text) = rw1::to_json(&profiles, None, &line) {
            let json: serde_json::Value = serde_json::from_str(&text).expect("to_json writes JSON");
            let message = rw1::parse(&profiles, None, &line).message.expect("accepted");
            prop_assert_eq!(&json, &message.to_json());
            // an empty list stands on a line as a bare +, which has no other form; an empty tail is no tail
            let odd = message.slots.iter().any(|(_, v)| v.show().is_empty()) || message.tail == Some("");
            if !odd {
                let back = rw1::from_json(&profiles, None, &text).expect("what was read can be written");
                prop_assert_eq!(rw1::digest(&profiles, None, &back), rw1::digest(&profiles, None, &line));
            }
        }
    }

    #[test]
    fn what_is_written_says_what_was_meant(draft in draft()) {
        let profiles = Profiles::builtin();
        let line = rw1::encode(&profiles, None, &draft).expect("a valid draft");
        let message = rw1::parse_strict(&profiles, None, &line).expect("a line a daemon takes");
        prop_assert_eq!(message.item, draft.item.as_deref());
        prop_assert_eq!(message.slots.len(), draft.slots.len());
        for (key, value) in &draft.slots {
            let got = message.get(key).expect("the slot is there").show();
            let same = if key == "n" { got.parse::<u32>().ok() == value.parse().ok() } else { got == *value };
            prop_assert!(same, "{} {} {}", key, got, value);
        }
        prop_assert_eq!(message.tail.unwrap_or_default(), draft.tail.as_deref().unwrap_or_default().trim_end());
    }

    #[test]
    fn the_order_of_slots_changes_no_fingerprint(draft in draft(), seed in any::<u64>()) {
        let profiles = Profiles::builtin();
        let line = rw1::encode(&profiles, None, &draft).expect("a valid draft");
        let (head, tail) = line.split_once(" // ").map_or((line.as_str(), None), |(head, tail)| (head, Some(tail)));
        let mut tokens: Vec<&str> = head.split(' ').collect();
        let slots = &mut tokens[3..];
        for n in 0..slots.len() {
            slots.swap(n, (seed.rotate_left(n as u32) % slots.len() as u64) as usize);
        }
        let mut other = tokens.join(" ");
        if let Some(tail) = tail {
            other.push_str(" // ");
            other.push_str(tail);
        }
        prop_assert_eq!(rw1::digest(&profiles, None, &other), rw1::digest(&profiles, None, &line));
    }

    #[test]
    fn a_composed_readback_passes_its_check(draft in draft()) {
        let profiles = Profiles::builtin();
        let mut ho = draft;
        ho.kind = Kind::Ho;
        ho.slots.push(("ask".into(), "AUDIT".into()));
        ho.slots.push(("rb".into(), "all".into()));
        let ho = rw1::encode(&profiles, None, &ho).expect("a valid handoff");
        let rb = rw1::make_rb(&profiles, None, &ho, "scheduler-1", &MakeRb::default()).expect("a readback");
        prop_assert_eq!(rw1::check_rb(&profiles, None, &ho, &rb, RbCheck::default()).problems, vec![]);
    }
}
