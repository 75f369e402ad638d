//! What prepare states and freezes, and what it refuses, each by the name of its slot.

use sha2::{Digest, Sha256};
use wilco_adapter::{Adapter, Job, ResolveError};
use wilco_core::frozen::Source;
use wilco_core::{ActId, Resolved};

use crate::support::{Scene, but, note, remittance, start};

pub fn sha256(bytes: &[u8]) -> String {
    format!(
        "sha256:{}",
        data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
    )
}

fn value<'r>(resolved: &'r Resolved, slot: &str) -> (&'r str, Source) {
    let found = resolved.values.iter().find(|v| v.slot == slot);
    let found = found.unwrap_or_else(|| panic!("{slot} is stated"));
    (&found.value, found.source)
}

fn extra<'r>(resolved: &'r Resolved, key: &str) -> Option<&'r str> {
    resolved
        .extra
        .iter()
        .find(|(k, _)| k == key)
        .map(|(_, v)| v.as_str())
}

async fn refused(scene: &Scene, job: &Job) -> (&'static str, String) {
    match scene.resolve(job).await {
        Err(ResolveError::Refused { why, text }) => (why, text),
        other => panic!("a refusal: {other:?}"),
    }
}

#[tokio::test]
async fn a_remittance_advice_states_its_figures_and_the_digest_of_its_bytes() {
    let scene = Scene::maildir();
    let job = remittance();
    let resolved = scene.resolve(&job).await.expect("resolved");
    let stated: Vec<(&str, &str)> = resolved
        .values
        .iter()
        .map(|v| (v.slot.as_str(), v.value.as_str()))
        .collect();
    assert_eq!(
        stated,
        [
            ("sup", "marlow"),
            ("addr", "ar@marlow.example"),
            ("amt", "5400.00"),
            ("cur", "GBP"),
            ("paid", "20261002"),
            ("ref", "MD-2026-057")
        ]
    );
    let body = &resolved.request.body;
    assert_eq!(extra(&resolved, "x_body"), Some(sha256(body.as_bytes()).as_str()));
    assert_eq!(
        extra(&resolved, "x_subj"),
        Some("Remittance_advice_MD-2026-057:_5,400.00_GBP")
    );
    assert_eq!(extra(&resolved, "x_from"), Some("wilco@localhost"));
    for shown in [
        "5,400.00 GBP",
        "2 October 2026",
        "MD-2026-057",
        "To: ar@marlow.example\r\n",
    ] {
        assert!(body.contains(shown), "{shown}: {body}");
    }
    let id = format!("<{}.1@localhost>", job.act_id);
    assert!(body.contains(&format!("Message-ID: {id}\r\n")));
    assert_eq!(resolved.request.key, id);
    assert!(body.contains("Date: Fri, 02 Oct 2026 09:05:00 +0000\r\n"));
}

#[tokio::test]
async fn the_same_job_gives_the_same_bytes_but_for_its_id_and_its_instant() {
    let scene = Scene::maildir();
    let one = remittance();
    let body = |resolved: Resolved| resolved.request.body;
    let first = body(scene.resolve(&one).await.expect("resolved"));
    assert_eq!(first, body(scene.resolve(&one).await.expect("resolved")));
    let other = Job {
        act_id: ActId::new(start(), [9; 10]),
        now: start().plus_seconds(61),
        ..one.clone()
    };
    let second = body(scene.resolve(&other).await.expect("resolved"));
    assert_ne!(first, second);
    let same = second
        .replace(&other.act_id.to_string(), &one.act_id.to_string())
        .replace("09:06:01", "09:05:00");
    assert_eq!(first, same);
    let again = Job { attempt: 2, ..one };
    assert_ne!(
        first,
        body(scene.resolve(&again).await.expect("resolved")),
        "each attempt is a message of its own"
    );
}

#[tokio::test]
async fn a_note_states_what_it_was_given_and_what_was_filled_in() {
    let scene = Scene::maildir();
    let job = but(note(), "apref", "");
    let resolved = scene.resolve(&job).await.expect("resolved");
    assert_eq!(
        value(&resolved, "addr"),
        ("anna@customer.example", Source::Handoff)
    );
    assert_eq!(value(&resolved, "tpl"), ("note", Source::Resolved));
    assert_eq!(value(&resolved, "subj"), ("Your_order_4711", Source::Handoff));
    assert_eq!(
        value(&resolved, "txt"),
        ("Dear_Anna,%0A%0Ait_is_on_its_way.", Source::Handoff)
    );
    assert_eq!(value(&resolved, "att"), ("NONE", Source::Resolved));
    assert_eq!(value(&resolved, "apref"), ("NONE", Source::Resolved));
    let body = &resolved.request.body;
    assert!(
        body.contains("Subject: Your order 4711\r\n")
            && body.contains("Dear Anna,\r\n\r\nit is on its way.\r\n")
    );
}

/// What a statement says must stand on a line: the real encoder says whether it can.
#[tokio::test]
async fn every_stated_value_stands_on_a_line_and_passes_the_real_checks() {
    let profiles = rw1::Profiles::builtin();
    let scene = Scene::maildir();
    for (job, line) in [
        (
            remittance(),
            "RW1 HO scheduler-1 from=scheduler to=payer item=inv:MD-2026-057 ask=SEND p=pay rb=exec sup=marlow \
             addr=ar@marlow.example amt=5400.00 cur=GBP paid=20261002 ref=MD-2026-057",
        ),
        (
            but(
                but(note(), "subj", "Gr%C3%BC%C3%9Fe,_100%25_%F0%9F%91%8B"),
                "apref",
                "",
            ),
            "RW1 HO writer-1 from=writer to=mailer item=mail:order-4711 ask=SEND p=mail rb=exec \
             addr=anna@customer.example subj=Gr%C3%BC%C3%9Fe,_100%25_%F0%9F%91%8B \
             txt=Dear_Anna,%0A%0Ait_is_on_its_way.",
        ),
    ] {
        let resolved = scene.resolve(&job).await.expect("resolved");
        let parsed = rw1::parse(&profiles, None, line);
        let message = parsed
            .message
            .unwrap_or_else(|| panic!("{line}: {:?}", parsed.errors));
        let rb_id = format!("{}-101", message.to);
        let mut draft = rw1::Draft::new(rw1::Kind::Rb, rb_id, message.to, message.from)
            .re(message.id)
            .item(job.item.clone())
            .slot("ask", "SEND");
        for value in &resolved.values {
            draft = draft.slot(&value.slot, &value.value);
        }
        for (key, value) in &resolved.extra {
            draft = draft.slot(key, value);
        }
        let rb = rw1::encode(&profiles, Some(&job.profile), &draft).unwrap_or_else(|e| panic!("{e:?}"));
        let checked = rw1::check_rb(
            &profiles,
            None,
            line,
            &rb,
            rw1::RbCheck {
                expect_acc: None,
                now: None,
            },
        );
        assert!(checked.problems.is_empty(), "{:?}\n{rb}", checked.problems);
    }
}

#[tokio::test]
async fn no_slot_can_add_a_header_or_a_recipient() {
    let scene = Scene::maildir();
    for (slot, bad) in [
        ("addr", "a@b.example\r\nRCPT TO:<c@d.example>"),
        ("addr", "a@b.example>,<c@d.example"),
        ("addr", "a@b.example,c@d.example"),
        ("addr", "\"a b\"@c.example"),
        ("addr", "a\u{202e}b@c.example"),
        ("addr", "jörg@c.example"),
        ("addr", "a@münchen.example"),
        ("subj", "hello%0D%0ABcc:_x@y.example"),
        ("subj", "hello%0ABcc:_x@y.example"),
        ("subj", "hello%00"),
        ("subj", "hello%E2%80%AEworld"),
        ("subj", "hello\r\nBcc: x@y.example"),
        ("subj", "hello%C2%85x"),
        ("txt", "hello%0D%0A.%0D%0AMAIL"),
        ("txt", "hello%00"),
        ("txt", "hello%1B[2J"),
        ("txt", "hello%E2%80%AEworld"),
    ] {
        let (why, text) = refused(&scene, &but(note(), slot, bad)).await;
        assert_eq!(why, "SCOPE", "{text}");
        assert!(text.starts_with(&format!("slot {slot}")), "{text}");
        assert!(
            !text.contains(['\r', '\n', '\0', '\u{202e}', '\u{1b}']),
            "{text:?}"
        );
    }
    for slot in ["sup", "ref", "cur"] {
        let (why, text) = refused(&scene, &but(remittance(), slot, "a\r\nBcc: x@y.example")).await;
        assert!(
            why == "SCOPE" && text.starts_with(&format!("slot {slot}")),
            "{why}: {text}"
        );
    }
}

#[tokio::test]
async fn what_is_missing_or_unknown_is_named() {
    let scene = Scene::maildir();
    for slot in ["sup", "addr", "amt", "cur", "paid", "ref"] {
        let (why, text) = refused(&scene, &but(remittance(), slot, "")).await;
        assert!(
            why == "NOCTX" && text.starts_with(&format!("slot {slot} is missing")),
            "{why}: {text}"
        );
    }
    for (slot, bad, want) in [
        ("subj", "", "NOCTX"),
        ("txt", "", "NOCTX"),
        ("txt", "NONE", "NOCTX"),
        ("addr", "", "NOCTX"),
        ("tpl", "nosuch", "NOCTX"),
        ("tpl", "remittance", "NOCTX"),
        ("tpl", "../note", "NOCTX"),
        ("att", "sha256:00", "NOCAP"),
        ("txt", "sha256:00", "NOCAP"),
    ] {
        let (why, text) = refused(&scene, &but(note(), slot, bad)).await;
        assert!(
            why == want && text.starts_with(&format!("slot {slot}")),
            "{slot}={bad} {why}: {text}"
        );
    }
    for (slot, bad) in [
        ("amt", "5400"),
        ("amt", "lots"),
        ("paid", "20260231"),
        ("paid", "soon"),
    ] {
        let (why, text) = refused(&scene, &but(remittance(), slot, bad)).await;
        assert!(
            why == "SCOPE" && text.starts_with(&format!("slot {slot}")),
            "{why}: {text}"
        );
    }
    let mut undo = remittance();
    undo.ask = "UNDO".to_owned();
    let (why, text) = refused(&scene, &undo).await;
    assert!(
        why == "NOCAP" && text.contains("a correction is another mail"),
        "{text}"
    );
    assert!(scene.mail.describe().serves.iter().all(|s| s.ask == "SEND"));
    let mut pay = remittance();
    pay.ask = "PAY".to_owned();
    assert_eq!(refused(&scene, &pay).await.0, "NOCAP");
    let mut odd = note();
    odd.exec.push("color".to_owned());
    assert_eq!(refused(&scene, &odd).await.0, "NOCTX");
}

#[tokio::test]
async fn our_own_register_says_where_mail_about_a_payment_goes() {
    let scene = Scene::maildir();
    let contacts = scene.folder.write(
        "contacts.toml",
        b"[contacts.marlow]\naddr = \"remit@marlow.example\"\n",
    );
    let mut config = scene.config.clone();
    config.contacts = Some(contacts.clone());
    config.allow_domains = vec![".marlow.example".to_owned()];
    let scene = Scene::with("", |c| *c = config);
    let resolved = scene.resolve(&remittance()).await.expect("resolved");
    // The handoff said ar@: the sender's check will find that another address would be used.
    assert_eq!(
        value(&resolved, "addr"),
        ("remit@marlow.example", Source::Resolved)
    );
    let (why, text) = refused(&scene, &but(remittance(), "sup", "nobody")).await;
    assert!(why == "NOCTX" && text.starts_with("slot sup"), "{text}");
    let (why, text) = refused(&scene, &note()).await;
    assert!(
        why == "PERM" && text.starts_with("slot addr") && text.contains("allow_domains"),
        "{text}"
    );
    std::fs::remove_file(&contacts).expect("removed");
    let gone = scene.resolve(&remittance()).await;
    assert!(matches!(gone, Err(ResolveError::Passing(_))), "{gone:?}");
}

#[tokio::test]
async fn files_go_along_by_their_digest_and_by_nothing_else() {
    let pdf: &[u8] = b"%PDF-1.7 not really";
    let letter = "Liebe Anna,\r\n\r\nes ist unterwegs.\r\n".as_bytes();
    let scene = Scene::with("", |c| {
        let folder = c.path.parent().expect("a folder").join("files");
        std::fs::create_dir_all(&folder).expect("made");
        std::fs::write(folder.join("invoice.pdf"), pdf).expect("written");
        std::fs::write(folder.join("letter.txt"), letter).expect("written");
        std::fs::write(folder.join("evil.txt"), "a\u{202e}b").expect("written");
        std::fs::write(folder.join("big.bin"), vec![0; 2_000_001]).expect("written");
        std::os::unix::fs::symlink("/etc/hostname", folder.join("link")).expect("linked");
        c.attachments = Some(folder);
    });
    let both = format!("{}+{}", sha256(pdf), sha256(letter));
    let job = but(but(note(), "att", &both), "txt", &sha256(letter));
    let resolved = scene.resolve(&job).await.expect("resolved");
    assert_eq!(value(&resolved, "att"), (both.as_str(), Source::Handoff));
    let body = &resolved.request.body;
    for shown in [
        "filename=\"invoice.pdf\"",
        "Content-Type: application/pdf",
        &data_encoding::BASE64.encode(pdf),
        "Liebe Anna,\r\n\r\nes ist unterwegs.\r\n",
    ] {
        assert!(body.contains(shown), "{shown}: {body}");
    }
    let hostname = std::fs::read("/etc/hostname").expect("a file");
    for (slot, value, want, rule) in [
        ("att", sha256(b"unknown"), "NOCTX", "no file"),
        ("att", sha256(&hostname), "NOCTX", "no file"),
        ("att", sha256(&vec![0; 2_000_001]), "NOCTX", "no file of at most"),
        ("att", "invoice.pdf".to_owned(), "SCOPE", "is not sha256:"),
        (
            "att",
            "../files/invoice.pdf".to_owned(),
            "SCOPE",
            "is not sha256:",
        ),
        ("att", format!("{0}+{0}", sha256(pdf)), "SCOPE", "twice"),
        ("txt", sha256("a\u{202e}b".as_bytes()), "SCOPE", "U+202E"),
    ] {
        let (why, text) = refused(&scene, &but(note(), slot, &value)).await;
        assert!(
            why == want && text.starts_with(&format!("slot {slot}")) && text.contains(rule),
            "{why}: {text}"
        );
    }
}

#[tokio::test]
async fn a_message_above_the_limit_is_not_made() {
    let scene = Scene::with("max_message_bytes = 1000", |_| {});
    let (why, text) = refused(&scene, &but(note(), "txt", &"x".repeat(900))).await;
    assert!(why == "SCOPE" && text.contains("max_message_bytes"), "{text}");
}

#[tokio::test]
async fn a_template_of_ones_own_shows_x_slots_and_the_statement_shows_them_too() {
    let scene = Scene::with("", |c| {
        let folder = c.path.parent().expect("a folder").join("templates");
        std::fs::create_dir_all(&folder).expect("made");
        let txt = "Subject: Order {{ref}} is late\n\nDear {{name}},\n\nit comes on {{x_day}}. ({{item}})\n";
        std::fs::write(folder.join("late.txt"), txt).expect("written");
        std::fs::write(
            folder.join("late.html"),
            "<p>Dear {{name}}, it comes on {{x_day}}.</p>\n",
        )
        .expect("written");
        c.templates = Some(folder);
    });
    let mut job = but(but(but(note(), "tpl", "late"), "subj", ""), "txt", "");
    for (slot, value) in [("name", "Anna_<b>"), ("ref", "4711"), ("x_day", "next_Monday")] {
        job = but(job, slot, value);
    }
    let resolved = scene.resolve(&job).await.expect("resolved");
    assert_eq!(value(&resolved, "subj"), ("Order_4711_is_late", Source::Resolved));
    assert_eq!(value(&resolved, "txt"), ("NONE", Source::Resolved));
    for (key, want) in [
        ("x_name", "Anna_<b>"),
        ("x_ref", "4711"),
        ("x_day", "next_Monday"),
    ] {
        assert_eq!(extra(&resolved, key), Some(want));
    }
    let body = &resolved.request.body;
    assert!(
        body.contains("Dear Anna <b>,") && body.contains("Dear Anna &lt;b&gt;, it"),
        "{body}"
    );
    let (why, text) = refused(&scene, &but(job.clone(), "x_day", "")).await;
    assert!(
        why == "NOCTX" && text.starts_with("slot x_day is missing, and template late"),
        "{text}"
    );
    let (why, text) = refused(&scene, &but(job, "subj", "Mine")).await;
    assert!(
        why == "SCOPE" && text.starts_with("slot subj: template late has its own"),
        "{text}"
    );
}

/// The built-in templates, as a reader gets them. `WILCO_GOLDEN=write` writes the files anew, for a person to look at.
#[tokio::test]
async fn the_built_in_templates_are_what_their_golden_files_say() {
    let scene = Scene::with(
        "from = \"pay@acme.example\"\nfrom_name = \"Acme Accounts\"",
        |_| {},
    );
    for (name, job) in [("remittance.eml", remittance()), ("note.eml", note())] {
        let job = Job {
            act_id: ActId::new(start(), [7; 10]),
            ..job
        };
        let resolved = scene.resolve(&job).await.expect("resolved");
        let got = resolved.request.body.replace("\r\n", "\n");
        let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var("WILCO_GOLDEN").as_deref() == Ok("write") {
            std::fs::write(&path, &got).expect("written");
        }
        let want = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(got, want, "{name}");
    }
}

mod property {
    use proptest::prelude::*;

    use super::*;

    /// The headers a note has, whatever it says.
    const HEADERS: [&str; 9] = [
        "Date",
        "From",
        "To",
        "Subject",
        "Message-ID",
        "Wilco-Act",
        "Auto-Submitted",
        "MIME-Version",
        "Content-Type",
    ];

    /// What somebody who wants a second header, a second recipient or a second message would write.
    fn hostile() -> impl Strategy<Value = String> {
        let pieces = prop_oneof![
            Just("\r\n".to_owned()),
            Just("\n".to_owned()),
            Just("%0D%0A".to_owned()),
            Just("%0a".to_owned()),
            Just("%00".to_owned()),
            Just("Bcc:_x@y.example".to_owned()),
            Just(">,<x@y.example".to_owned()),
            Just("\r\n.\r\nMAIL_FROM:<a@b>".to_owned()),
            Just("=?UTF-8?Q?=0D=0ABcc:x@y?=".to_owned()),
            Just("--=_".to_owned()),
            Just("\u{202e}".to_owned()),
            Just("%E2%80%AE".to_owned()),
            Just("@".to_owned()),
            "[ -~]{1,8}",
            "\\PC{1,4}",
        ];
        proptest::collection::vec(pieces, 1..6).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn whatever_slots_say_a_mail_has_its_own_headers_and_one_recipient(
            slot in prop_oneof![Just("addr"), Just("subj"), Just("txt"), Just("apref"), Just("tpl"), Just("att")],
            value in hostile(),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            let scene = Scene::maildir();
            let job = but(note(), slot, &value);
            let Ok(resolved) = runtime.block_on(scene.resolve(&job)) else {
                return Ok(());
            };
            let body = &resolved.request.body;
            let head = body.split("\r\n\r\n").next().unwrap_or_default();
            let lines = head.split("\r\n").filter(|l| !l.starts_with(' '));
            let names: Vec<&str> = lines.map(|l| l.split(':').next().unwrap_or_default()).collect();
            prop_assert_eq!(names, HEADERS, "{}={:?}", slot, value);
            prop_assert!(body.is_ascii());
            let bare = body.replace("\r\n", "");
            prop_assert!(!bare.contains(['\r', '\n', '\0']));
            let to = head.split("\r\n").find_map(|l| l.strip_prefix("To: ")).unwrap_or_default();
            let stated = resolved.values.iter().find(|v| v.slot == "addr").map(|v| v.value.as_str());
            prop_assert_eq!(Some(to), stated);
            prop_assert!(to.matches('@').count() == 1 && !to.contains([',', '<', '>', ';', ' ']));
            for value in resolved.values.iter().map(|v| &v.value).chain(resolved.extra.iter().map(|(_, v)| v)) {
                prop_assert!(!value.contains(['\r', '\n']), "{value:?}");
            }
        }
    }
}
