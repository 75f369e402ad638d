//! Where this crate refuses what the public implementation lets through, and where it accepts what that refuses.
//!
//! One test for each row of the table in `README.md`; each shows the dangerous line and its honest twin.

use rw1::{Code, Draft, Kind, Problem, Profiles, RbCheck};

const HO: &str = "RW1 HO scheduler-1 from=scheduler to=payer item=inv:7 ask=PAY p=pay rb=exec sup=marlow amt=5400.00 \
                  cur=GBP kind=GROSS acct=40-12-88/61102938 paid=20261002 ref=A-1 apref=FD-0929";
const RB: &str = "RW1 RB payer-1 re=scheduler-1 from=payer to=scheduler item=inv:7 ask=PAY p=pay sup=marlow amt=5400.00 \
                  cur=GBP kind=GROSS acct=40-12-88/61102938 paid=20261002 ref=A-1 apref=FD-0929";
const DN: &str = "RW1 DN payer-2 re=scheduler-1 from=payer to=scheduler item=inv:7 out=OK p=pay sup=marlow amt=5400.00 \
                  cur=GBP kind=GROSS acct=40-12-88/61102938 paid=20261002 ref=A-1 apref=FD-0929";

fn codes(problems: &[Problem]) -> Vec<Code> {
    problems.iter().map(|p| p.code).collect()
}

fn errors(line: &str) -> Vec<Code> {
    codes(&rw1::parse(&Profiles::builtin(), None, line).errors)
}

#[test]
fn digits_are_ascii_digits() {
    assert_eq!(errors(HO), []);
    for (honest, dressed, code) in [
        ("amt=5400.00", "amt=５４００.００", Code::BadMoney),
        ("amt=5400.00", "amt=٥٤٠٠.٠٠", Code::BadMoney),
        ("paid=20261002", "paid=２０２６１００２", Code::BadDate),
        ("HO scheduler-1", "HO scheduler-１", Code::BadId),
    ] {
        assert!(errors(&HO.replace(honest, dressed)).contains(&code), "{dressed}");
    }
    let st = "RW1 ST record-1 from=record to=reviewer item=meas:hba1c p=clin act=OBS pol=POS cert=CERT subj=PT time=CUR res=";
    assert_eq!(errors(&format!("{st}7.2")), []);
    assert_eq!(errors(&format!("{st}٧.٢")), [Code::BadNumber]);
    assert_eq!(
        errors("RW1 ST a-1 from=a to=b item=x:1 pct=٦٠"),
        [Code::NotAnInteger]
    );
}

#[test]
fn dates_exist() {
    assert_eq!(errors("RW1 HO a-1 from=a to=b item=x:1 ask=FIX due=20240229"), []);
    for due in ["20230229", "20261302", "20260431", "20260100", "00000101"] {
        assert_eq!(
            errors(&format!("RW1 HO a-1 from=a to=b item=x:1 ask=FIX due={due}")),
            [Code::BadDate],
            "{due}"
        );
    }
}

#[test]
fn times_exist() {
    assert_eq!(
        errors("RW1 HO a-1 from=a to=b item=x:1 ask=FIX exp=20261002T2359Z"),
        []
    );
    // as texts, all of these are later than any real time of their day: such a statement would hardly expire
    for exp in [
        "20261002T9999Z",
        "20261002T2400Z",
        "20261002T1260Z",
        "20269902T1200Z",
    ] {
        assert_eq!(
            errors(&format!("RW1 HO a-1 from=a to=b item=x:1 ask=FIX exp={exp}")),
            [Code::BadTime],
            "{exp}"
        );
    }
}

#[test]
fn nothing_hides_in_a_value() {
    let hidden = [
        "\t", "\u{a0}", "\u{3000}", "\u{200b}", "\u{200d}", "\u{feff}", "\u{ad}", "\u{202e}", "\u{0}",
        "\u{7f}", "\r",
    ];
    for hidden in hidden {
        let line = HO.replace("61102938", &format!("6110{hidden}2938"));
        assert!(errors(&line).contains(&Code::BadCharacter), "{hidden:?}");
    }
}

#[test]
fn a_tail_stays_on_its_line_and_in_its_order() {
    assert_eq!(
        errors(&format!("{HO} // für Müller \u{2013} see 👩\u{200d}💼")),
        []
    );
    for hidden in [
        "\r",
        "\u{b}",
        "\u{85}",
        "\u{2028}",
        "\u{202e}",
        "\u{2066}",
        "\u{1b}[2K",
    ] {
        assert_eq!(
            errors(&format!("{HO} // a{hidden}b")),
            [Code::BadCharacter],
            "{hidden:?}"
        );
    }
    assert!(errors(&format!("{HO} // a\nRW1 CX b")).contains(&Code::BadCharacter));
}

#[test]
fn days_have_a_bound() {
    let line = |days: &str| format!("RW1 HO TRI-1 from=TRI to=STR item=n:1 ask=STALE p=pform stall={days}");
    assert_eq!(errors(&line("999999999d")), []);
    assert_eq!(errors(&line("0000000000000000019")), []);
    assert_eq!(errors(&line("1000000000")), [Code::BadDays]);
    assert_eq!(errors(&line(&"9".repeat(5_000))), [Code::BadDays]);
}

#[test]
fn a_line_has_a_longest_length() {
    let line = |n: usize| format!("RW1 ST a-1 from=a to=b item=x:1 x_a={}", "y".repeat(n));
    let room = rw1::MAX_LINE_BYTES - line(0).len();
    assert_eq!(errors(&line(room)), []);
    assert_eq!(errors(&line(room + 1)), [Code::LineTooLong]);
}

#[test]
fn a_value_cannot_smuggle_a_second_slot() {
    let profiles = Profiles::builtin();
    let draft = |sup: &str| {
        Draft::new(Kind::St, "payer-1", "payer", "human")
            .item("inv:7")
            .slot("p", "pay")
            .slot("sup", sup)
    };
    assert!(rw1::encode(&profiles, None, &draft("marlow")).is_ok());
    let smuggled = rw1::encode(&profiles, None, &draft("marlow amt=1.00"));
    assert_eq!(smuggled.map_err(|p| codes(&p)), Err(vec![Code::Smuggled]));
    let mut key = draft("marlow");
    key.slots.push(("x_a=1 amt".into(), "1.00".into()));
    assert_eq!(
        rw1::encode(&profiles, None, &key).map_err(|p| codes(&p)),
        Err(vec![Code::Smuggled])
    );
}

#[test]
fn a_key_is_given_once() {
    let profiles = Profiles::builtin();
    let message = |slots: &str| {
        let text = format!(
            r#"{{"type":"ST","id":"payer-1","from":"payer","to":"human","item":"inv:7","slots":{{{slots}}}}}"#
        );
        rw1::from_json(&profiles, Some("pay"), &text).map_err(|p| codes(&p))
    };
    assert!(message(r#""amt":"5400.00""#).is_ok());
    assert_eq!(
        message(r#""amt":"5400.00","amt":"5100.00""#),
        Err(vec![Code::BadJson])
    );
    assert!(rw1::read_record(r#"{"amt":"5400.00"}"#).is_ok());
    assert!(rw1::read_record(r#"{"amt":"5400.00","amt":"5100.00"}"#).is_err());
}

#[test]
fn without_a_profile_argument_the_line_says_which() {
    let profiles = Profiles::builtin();
    let record = serde_json::Map::new();
    let unasked = HO.replace(" rb=exec", "");
    assert_eq!(
        codes(&rw1::check_ho(&profiles, None, &unasked, &record).problems),
        [Code::ExecNotAsked]
    );
    let lookalike = RB.replace("61102938", "61102983");
    let checked = rw1::check_rb(&profiles, None, HO, &lookalike, RbCheck::default());
    assert_eq!(codes(&checked.problems), [Code::ExecMismatch]);
    let missing = DN.replace(" acct=40-12-88/61102938", "");
    assert_eq!(
        codes(&rw1::check_dn(&profiles, None, HO, &missing, None, None).problems),
        [Code::DoneMissing]
    );
    // a reply that leaves its p= out is read as one to this handoff
    let checked = rw1::check_rb(
        &profiles,
        None,
        HO,
        &lookalike.replace(" p=pay", ""),
        RbCheck::default(),
    );
    assert_eq!(codes(&checked.problems), [Code::ExecMismatch]);
}

#[test]
fn a_true_report_stays_true_after_the_statement_expired() {
    let profiles = Profiles::builtin();
    let rb = format!("{RB} exp=20261002T0905Z");
    assert!(rw1::check_dn(&profiles, None, HO, DN, Some(&rb), None).ok());
    assert!(rw1::check_dn(&profiles, None, HO, DN, Some(&rb), Some("20261002T0904Z")).ok());
    let late = rw1::check_dn(&profiles, None, HO, DN, Some(&rb), Some("20261002T0905Z"));
    assert_eq!(codes(&late.problems), [Code::ReadbackFailed]);
}

#[test]
fn an_instant_is_one_or_the_check_fails() {
    let profiles = Profiles::builtin();
    for now in ["", "0", "2026-10-02T09:05Z", "20261002T9905Z"] {
        let with = RbCheck {
            now: Some(now),
            ..RbCheck::default()
        };
        assert_eq!(
            codes(&rw1::check_rb(&profiles, None, HO, RB, with).problems),
            [Code::BadInstant],
            "{now}"
        );
    }
}

#[test]
fn a_thread_names_each_message_once() {
    let checked = rw1::check_thread(&Profiles::builtin(), None, &[HO, RB, DN, HO], None);
    assert_eq!(codes(&checked.problems), [Code::DuplicateId]);
}

#[test]
fn only_the_receiver_closes() {
    let stranger = "RW1 UN auditor-1 re=scheduler-1 from=auditor to=scheduler why=PERM p=pay";
    let checked = rw1::check_thread(&Profiles::builtin(), None, &[HO, stranger, RB, DN], None);
    assert_eq!(codes(&checked.problems), [Code::StrangerClosed]);
}

#[test]
fn nobody_says_nothing_ran_after_it_did() {
    let cx = "RW1 CX scheduler-2 re=scheduler-1 from=scheduler to=payer item=inv:7 why=REVOKED p=pay";
    let an = "RW1 AN payer-3 re=scheduler-2 from=payer to=scheduler val=Y p=pay // nothing paid";
    let profiles = Profiles::builtin();
    assert_eq!(
        codes(&rw1::check_thread(&profiles, None, &[HO, RB, DN, cx, an], None).problems),
        [Code::DeniedAfterDone]
    );
    let noop = DN.replace("out=OK", "out=NOOP");
    assert!(rw1::check_thread(&profiles, None, &[HO, RB, &noop, cx, an], None).ok());
}

#[test]
fn criteria_have_a_bound() {
    let profiles = Profiles::builtin();
    let many: Vec<String> = (0..300).map(|n| format!("no:x{n}")).collect();
    let ho = "RW1 HO a-1 from=a to=b item=x:1 ask=DRAFT rb=acc";
    let rb = format!(
        "RW1 RB b-1 re=a-1 from=b to=a item=x:1 ask=DRAFT acc={}",
        many.join("+")
    );
    let with = RbCheck {
        expect_acc: Some(&many),
        now: None,
    };
    assert_eq!(
        codes(&rw1::check_rb(&profiles, None, ho, &rb, with).problems),
        [Code::AccTooMany]
    );
}

#[test]
fn a_daemon_takes_no_line_with_a_warning() {
    let profiles = Profiles::builtin();
    let strict = |line: &str| {
        rw1::parse_strict(&profiles, None, line)
            .map(|_| ())
            .map_err(|p| codes(&p))
    };
    assert_eq!(strict(HO), Ok(()));
    assert_eq!(strict(&format!("{HO}\n")), Ok(()));
    assert_eq!(strict(&format!("{HO} x_team=blue")), Ok(()));
    for (line, code) in [
        (format!("{HO}\n\n"), Code::OuterWhitespace),
        (format!("{HO}\r\n"), Code::OuterWhitespace),
        (format!(" {HO}"), Code::OuterWhitespace),
        (format!("{HO} "), Code::OuterWhitespace),
        (HO.replace(" amt", "  amt"), Code::ExtraSpaces),
        (format!("{HO} colour=red"), Code::UnknownKey),
        (format!("{HO} out=OK"), Code::SlotNotDefined),
        (HO.replace("to=payer", "to=scheduler"), Code::SameAgent),
    ] {
        assert_eq!(strict(&line), Err(vec![code]), "{line:?}");
    }
    let deploy = rw1::parse_strict(
        &profiles,
        Some("pay"),
        "RW1 ST payer-1 from=payer to=human item=x:1 p=deploy",
    );
    assert_eq!(
        deploy.map(|_| ()).map_err(|p| codes(&p)),
        Err(vec![Code::ProfileMismatch])
    );
}

#[test]
fn a_reversal_is_held_to_what_its_sender_named() {
    let profiles = Profiles::builtin();
    let check =
        |ho: &str, rb: &str| codes(&rw1::check_rb(&profiles, None, ho, rb, RbCheck::default()).problems);
    let (ho, rb) = (
        HO.replace("ask=PAY", "ask=UNDO"),
        RB.replace("ask=PAY", "ask=UNDO"),
    );
    assert_eq!(check(&ho, &rb), []);
    assert_eq!(
        check(&ho, &rb.replace("amt=5400.00", "amt=5100.00")),
        [Code::ExecMismatch]
    );
    assert_eq!(check(&ho, &rb.replace(" amt=5400.00", "")), [Code::ExecMissing]);
    // What the sender leaves to the receiver, the receiver states.
    assert_eq!(check(&ho.replace(" amt=5400.00", ""), &rb), []);

    // And what was done is held to what was stated.
    let done = |dn: &str| codes(&rw1::check_dn(&profiles, None, &ho, dn, Some(&rb), None).problems);
    assert_eq!(done(DN), []);
    assert_eq!(
        done(&DN.replace("amt=5400.00", "amt=5100.00")),
        [Code::DoneMismatch]
    );
    assert_eq!(done(&DN.replace(" amt=5400.00", "")), [Code::DoneMissing]);
}
