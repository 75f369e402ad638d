//! Profiles: what the ones in the binary hold, what a file may say, and what the legend tells a model.

use rw1::{Kind, ProfileError, Profiles, Span};

fn load(name: &str, text: &str) -> Result<Profiles, ProfileError> {
    Profiles::from_texts([(name.to_owned(), text.to_owned())])
}

#[test]
fn the_profiles_in_the_binary() {
    let profiles = Profiles::builtin();
    assert_eq!(
        profiles.names().collect::<Vec<_>>(),
        ["clin", "deploy", "mail", "pay", "pform"]
    );
    assert_eq!(profiles.core().name(), "core");
    assert!(
        profiles.get("core").is_none(),
        "the core is not a profile that a line can name"
    );
    let pay = profiles.get("pay").expect("pay");
    assert_eq!(
        pay.exec("PAY").expect("exec"),
        ["sup", "amt", "cur", "kind", "acct", "paid", "ref", "apref"]
    );
    assert_eq!(
        pay.exec("CHGBANK").expect("exec"),
        ["sup", "acct", "eff", "apref", "prev"]
    );
    assert_eq!(
        pay.exec("SEND").expect("exec"),
        ["sup", "addr", "amt", "cur", "paid", "ref"]
    );
    for ask in ["PAY", "CHGBANK"] {
        let (undo, reversed) = (pay.undo(ask).expect("undo"), pay.exec(ask).expect("exec"));
        assert_eq!(undo, reversed, "what is taken back is stated like what was done");
        for slot in pay.exec("UNDO").expect("exec") {
            assert!(undo.contains(slot), "every reversal has {slot}");
        }
    }
    assert_eq!(pay.undo("SEND"), None, "a mail cannot be taken back");
    let mail = profiles.get("mail").expect("mail");
    assert_eq!(
        mail.exec("SEND").expect("exec"),
        ["addr", "tpl", "subj", "txt", "att", "apref"]
    );
    assert_eq!(mail.undo("SEND"), None);
    let likeness = mail.likeness("SEND").expect("likeness");
    assert_eq!(likeness.slots, ["addr", "tpl", "subj", "txt", "att"]);
    assert_eq!(likeness.span, Span::Days(7));
    assert_eq!(pay.exec("RECON"), None);
    assert!(pay.knows_ask("PAY") && pay.knows_ask("REVIEW") && !pay.knows_ask("DEPLOY"));
    let likeness = pay.likeness("PAY").expect("likeness");
    assert_eq!(likeness.slots, ["item", "sup", "amt", "cur", "acct"]);
    assert_eq!(likeness.span, Span::Days(90));
    let deploy = profiles.get("deploy").expect("deploy");
    assert_eq!(
        deploy.exec("DEPLOY").expect("exec"),
        ["env", "ver", "prev", "win", "apref"]
    );
    assert_eq!(deploy.exec("ROLLBACK").expect("exec"), ["env", "prev", "apref"]);
    assert_eq!(
        deploy.exec("MIGRATE").expect("exec"),
        ["env", "mig", "down", "apref"]
    );
    assert_eq!(deploy.likeness("DEPLOY").expect("likeness").span, Span::OpenOnly);
    assert_eq!(
        deploy.agents().expect("agents"),
        ["human", "oncall", "operator", "release"]
    );
}

#[test]
fn what_an_act_is_done_with_may_be_stated_and_reported() {
    let profiles = Profiles::builtin();
    for profile in profiles.names().filter_map(|name| profiles.get(name)) {
        for ask in profile.exec_asks() {
            for slot in profile.exec(ask).unwrap_or_default() {
                for kind in [Kind::Rb, Kind::Dn] {
                    assert!(
                        profile.allows(kind, slot),
                        "{} {ask} {slot} on {kind}",
                        profile.name()
                    );
                }
            }
        }
    }
    // deploy's own list leaves `down` off the done report; being an execution slot puts it there
    assert!(
        profiles
            .get("deploy")
            .is_some_and(|deploy| deploy.allows(Kind::Dn, "down"))
    );
}

#[test]
fn the_digest_is_the_sha_256_of_the_text() {
    let profiles = load("empty", "{}").expect("a profile that adds nothing");
    let digest = profiles.get("empty").map(|p| p.digest().to_owned());
    assert_eq!(
        digest.as_deref(),
        Some("44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a")
    );
}

#[test]
fn a_profile_of_ones_own() {
    let text = r#"{"profile": "fleet", "version": "3", "asks": {"RECALL": "call a vehicle back"},
        "enums": {"depot": {"N": "north", "S": "south"}, "why": {"FUEL": "no fuel"}},
        "slots": [{"key": "veh", "type": "token", "on": ["HO", "ST"], "required": true},
                  {"key": "home", "type": "list:enum:depot", "on": ["HO"]}],
        "exec": {"RECALL": ["veh", "home"]}, "x_owner": "dispatch"}"#;
    let profiles = load("fleet", text).expect("a profile");
    assert_eq!(profiles.get("fleet").map(|p| p.version()), Some("3"));
    let check = |line: &str| {
        rw1::parse(&profiles, None, line)
            .errors
            .into_iter()
            .map(|p| p.text)
            .collect::<Vec<_>>()
    };
    assert!(check("RW1 HO a-1 from=a to=b item=v:1 ask=RECALL p=fleet veh=V1 home=N+S").is_empty());
    assert_eq!(
        check("RW1 HO a-1 from=a to=b item=v:1 ask=RECALL p=fleet home=W").len(),
        2
    );
    assert!(check("RW1 UN b-1 re=a-1 from=b to=a why=FUEL p=fleet").is_empty());
    assert!(
        !check("RW1 HO a-1 from=a to=b item=v:1 ask=PAY p=pay").is_empty(),
        "nothing else is loaded"
    );
}

#[test]
fn a_core_of_ones_own_replaces_the_one_in_the_binary() {
    let core = include_str!("../../../profiles/core.json")
        .replace("\"tail_max_chars\": 300", "\"tail_max_chars\": 10");
    let profiles = load("core", &core).expect("a core");
    let line = "RW1 ST a-1 from=a to=b item=x:1 // eleven char";
    assert_eq!(rw1::parse(&profiles, None, line).errors.len(), 1);
    let lame = core.replace("\"rb\": \"list:token\"", "\"rb\": \"token\"");
    assert!(matches!(load("core", &lame), Err(ProfileError::Rule { field, .. }) if field == "slots.rb"));
}

#[test]
fn what_a_profile_may_not_say() {
    let refused = |text: &str| load("own", text).map(|_| ()).map_err(|e| e.to_string());
    for (text, part) in [
        (
            r#"{"profile": "other"}"#,
            "profile: the file is named own but says 'other'",
        ),
        (r#"{"asks": {"UNDO": "forget it"}}"#, "asks.UNDO: the code exists"),
        (
            r#"{"enums": {"out": {"OK": "more or less"}}}"#,
            "enums.out.OK: the code exists",
        ),
        (
            r#"{"enums": {"why": {"ERR": "whatever"}}}"#,
            "enums.why.ERR: the code exists",
        ),
        (
            r#"{"slots": [{"key": "rb", "type": "token"}]}"#,
            "slots.rb: the slot exists",
        ),
        (
            r#"{"slots": [{"key": "A", "type": "token"}]}"#,
            "slots.A: a key is lowercase",
        ),
        (
            r#"{"slots": [{"key": "a", "type": "colour"}]}"#,
            "slots.a: 'colour' is not a slot type",
        ),
        (
            r#"{"slots": [{"key": "a", "type": "enum:colour"}]}"#,
            "slots.a: 'enum:colour'",
        ),
        (
            r#"{"slots": [{"key": "a", "type": "list:list:token"}]}"#,
            "slots.a: 'list:list:token'",
        ),
        (
            r#"{"slots": [{"key": "a", "type": "int:9-1"}]}"#,
            "slots.a: 'int:9-1'",
        ),
        (
            r#"{"slots": [{"key": "a", "type": "token", "on": ["XX"]}]}"#,
            "slots.a.on: XX",
        ),
        (r#"{"slots": [{"type": "token"}]}"#, "every slot has a key"),
        (r#"{"exce": {"UNDO": ["ctx"]}}"#, "exce: no such field"),
        (r#"{"exec": {"GO": ["due"]}}"#, "exec.GO: no such ask"),
        (
            r#"{"exec": {"UNDO": ["amount"]}}"#,
            "exec.UNDO: 'amount' is not a slot",
        ),
        (r#"{"exec": {"UNDO": []}}"#, "exec.UNDO: name at least one slot"),
        (
            r#"{"likeness": {"UNDO": {"slots": ["ctx"]}}}"#,
            "likeness.UNDO: say either",
        ),
        (
            r#"{"likeness": {"UNDO": {"slots": ["ctx"], "days": 0}}}"#,
            "likeness.UNDO.days",
        ),
        (r#"{"agents": "me"}"#, "agents: a list of texts"),
        ("[]", "a profile is a JSON object"),
        ("{", "is not read"),
    ] {
        let said = refused(text).expect_err(text);
        assert!(said.contains(part), "{text} is refused with: {said}");
    }
    for name in ["Own", "", "-a", "a/b", "a.b", &"a".repeat(33)] {
        assert!(
            matches!(load(name, "{}"), Err(ProfileError::Name { .. })),
            "{name}"
        );
    }
    let twice = Profiles::from_texts([("a".into(), "{}".into()), ("a".into(), "{}".into())]);
    assert!(matches!(twice, Err(ProfileError::Twice { .. })));
}

#[test]
fn the_legend_tells_what_is_checked() {
    let profiles = Profiles::builtin();
    for name in profiles.names() {
        let profile = profiles.get(name).expect("named");
        let legend = rw1::legend(&profiles, Some(name), false).expect("a legend");
        for key in profile.slot_keys() {
            assert!(
                legend
                    .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .any(|w| w == key)
                    || key == "p",
                "{name}: {key}"
            );
        }
        for ask in profile.exec_asks() {
            let slots = profile.exec(ask).unwrap_or_default().join(" ");
            assert!(legend.contains(&format!("{ask}: {slots}")), "{name}: {ask}");
        }
        for agent in profile.agents().unwrap_or_default() {
            assert!(legend.contains(agent.as_str()), "{name}: {agent}");
        }
        assert!(legend.contains(&format!("p={name}")));
    }
    let core = rw1::legend(&profiles, None, false).expect("a legend");
    assert!(core.contains(
        "HO handoff: requires from to item ask; optional re due pri conf keep art ctx rb acc keys exp"
    ));
    let pay = rw1::legend(&profiles, Some("pay"), false).expect("a legend");
    assert!(pay.contains(
        "RB readback: requires re from to item ask; optional due eta h do acc not asm exp sup po amt cur kind dec flag appr \
         var n src net vat acct paid ref eff apref addr prev"
    ));
    assert!(rw1::legend(&profiles, Some("nope"), false).is_err());
}

#[test]
fn the_lean_legend_leaves_out_what_a_team_does_not_use() {
    let profiles = Profiles::builtin();
    let full = rw1::legend(&profiles, Some("pay"), false).expect("a legend");
    let lean = rw1::legend(&profiles, Some("pay"), true).expect("a legend");
    assert!(lean.len() < full.len() * 4 / 5);
    assert!(full.contains("constraint keys") && !lean.contains("constraint keys"));
    assert!(full.contains("DRAFT=") && !lean.contains("DRAFT="));
    assert!(lean.contains("PAY=") && lean.contains("UNDO=") && lean.contains("rb=exec"));
}
