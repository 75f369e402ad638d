//! Each field that is wrong is named, with its rule, before anything is sent anywhere.

use super::*;

const SMTP: &str = r#"
    transport = "smtp"
    from = "pay@x.example"
    [smtp]
    host = "127.0.0.1"
    port = 2525
"#;

fn smtp() -> MailConfig {
    MailConfig::from_toml(SMTP).expect("a table")
}

fn said(config: &MailConfig) -> String {
    match config.checked() {
        Ok(_) => "fine".to_owned(),
        Err(e) => e.to_string(),
    }
}

#[test]
fn without_a_table_mail_goes_to_a_maildir() {
    let config = MailConfig::from_toml("")
        .expect("a table")
        .in_folder(Path::new("/data"));
    let checked = config.checked().map_err(|e| e.to_string()).expect("fine");
    assert!(matches!(checked.transport, Transport::Maildir(path) if path == Path::new("/data/mail")));
    assert_eq!(checked.from.address.as_str(), "wilco@localhost");
    assert_eq!(checked.templates.keys().collect::<Vec<_>>(), ["note"]);
    assert_eq!(checked.pay_template.name(), "remittance");
}

#[test]
fn relative_paths_count_from_the_data_folder() {
    let mut config = smtp();
    config.templates = Some("templates".into());
    config.smtp.as_mut().expect("smtp").password_file = Some("/run/secret".into());
    let placed = config.in_folder(Path::new("/data"));
    assert_eq!(placed.templates.as_deref(), Some(Path::new("/data/templates")));
    assert_eq!(
        placed.smtp.and_then(|s| s.password_file).as_deref(),
        Some(Path::new("/run/secret"))
    );
}

#[test]
fn a_field_nobody_knows_is_refused() {
    for text in [
        "pasword = \"x\"",
        "[smtp]\nhost = \"h\"\npassword = \"x\"",
        "[imap]\nhost = \"h\"",
    ] {
        let error = MailConfig::from_toml(text).expect_err(text).to_string();
        assert!(error.starts_with("[adapters.mail]"), "{error}");
    }
}

#[test]
fn each_wrong_field_is_named_with_its_rule() {
    type Change = fn(&mut MailConfig);
    fn server(config: &mut MailConfig) -> &mut SmtpConfig {
        config.smtp.as_mut().expect("smtp")
    }
    fn archive(config: &mut MailConfig, text: &str) {
        config.imap = Some(toml::from_str(text).expect("a table"));
    }
    let cases: [(&str, &str, Change); 26] = [
        ("transport", "\"maildir\" or \"smtp\"", |c| {
            c.transport = "fax".into()
        }),
        ("transport", "must be \"smtp\"", |c| {
            c.transport = "maildir".into()
        }),
        ("smtp", "must say which server", |c| c.smtp = None),
        ("from", "must be the address", |c| c.from = None),
        ("from", "one @|no @", |c| c.from = Some("nobody".into())),
        ("from", "smtputf8 is not configured", |c| {
            c.from = Some("jörg@x.example".into())
        }),
        ("from_name", "U+000D", |c| {
            c.from_name = Some("A\r\nBcc: x@y".into())
        }),
        ("reply_to", "mail address", |c| c.reply_to = Some("a@b>".into())),
        ("domain", "ASCII labels", |c| c.domain = Some("x y".into())),
        ("allow_domains", "must be domains", |c| {
            c.allow_domains = vec!["*.example".into()]
        }),
        ("attachments", "folder that exists", |c| {
            c.attachments = Some("/nonexistent".into())
        }),
        ("templates", "folder that exists", |c| {
            c.templates = Some("/nonexistent".into())
        }),
        ("pay_template", "there are note, remittance", |c| {
            c.pay_template = "none".into()
        }),
        ("max_message_bytes", "between 1000", |c| c.max_message_bytes = 10),
        ("concurrency", "between 1", |c| c.concurrency = 0),
        ("smtp.host", "name or address", |c| server(c).host = "a b".into()),
        ("smtp.tls", "\"starttls\" or \"none\"", |c| {
            server(c).tls = Some("yes".into())
        }),
        ("smtp.tls", "for loopback only", |c| {
            server(c).host = "mail.example".into();
            server(c).tls = Some("none".into());
        }),
        ("smtp.helo", "must be a domain", |c| {
            server(c).helo = Some("a b".into())
        }),
        ("smtp.username", "given with a password", |c| {
            server(c).password_env = Some("P".into())
        }),
        ("smtp.password_file", "exactly one place", |c| {
            server(c).username = Some("u".into())
        }),
        ("smtp.archive_bcc", "mail address", |c| {
            server(c).archive_bcc = Some("a b@c".into())
        }),
        ("smtp.timeout_s", "between 1", |c| server(c).timeout_s = 301),
        ("smtp.reply_timeout_s", "between 1", |c| {
            server(c).reply_timeout_s = 0
        }),
        ("imap.mailbox", "printable ASCII", |c| {
            archive(
                c,
                "host = \"127.0.0.1\"\nusername = \"u\"\npassword_env = \"P\"\nmailbox = \"Entwürfe\"",
            );
        }),
        ("imap.password_file", "exactly one place", |c| {
            archive(c, "host = \"::1\"\nusername = \"u\"")
        }),
    ];
    assert_eq!(said(&smtp()), "fine");
    for (field, rule, change) in cases {
        let mut config = smtp();
        change(&mut config);
        let text = said(&config);
        let named = text.starts_with(&format!("[adapters.mail] {field}"));
        assert!(
            named && rule.split('|').any(|r| text.contains(r)),
            "{field}, {rule}: {text}"
        );
    }
}

#[test]
fn an_archive_belongs_to_a_server() {
    let text = "[imap]\nhost = \"::1\"\nusername = \"u\"\npassword_env = \"P\"";
    let config = MailConfig::from_toml(text).expect("a table");
    assert!(
        said(&config).starts_with("[adapters.mail] imap: "),
        "{}",
        said(&config)
    );
}

#[cfg(not(feature = "tls"))]
#[test]
fn tls_without_its_feature_says_what_to_build() {
    let mut config = smtp();
    config.smtp.as_mut().expect("smtp").host = "mail.example".into();
    assert!(
        said(&config).contains("feature `tls` of the crate adapter-mail"),
        "{}",
        said(&config)
    );
}

#[cfg(feature = "tls")]
#[test]
fn off_loopback_tls_is_what_is_meant_and_the_window_covers_the_system() {
    let mut config = smtp();
    let smtp = config.smtp.as_mut().expect("smtp");
    smtp.host = "mail.example".into();
    smtp.port = None;
    let tls = |config: &MailConfig| match config.checked().map(|c| c.transport) {
        Ok(Transport::Smtp(smtp, _)) => (smtp.server.tls, smtp.server.port),
        _ => panic!("{}", said(config)),
    };
    assert_eq!(tls(&config), (Tls::Upgraded, 587));
    config.smtp.as_mut().expect("smtp").port = Some(465);
    assert_eq!(tls(&config), (Tls::FromStart, 465));
    config.smtp.as_mut().expect("smtp").settle_window_s = 59;
    assert!(
        said(&config).contains("smtp.settle_window_s: must be at least 2 times"),
        "{}",
        said(&config)
    );
}

#[test]
fn templates_of_a_folder_are_read_and_checked_at_start() {
    let folder = std::env::temp_dir().join(format!("wilco-mail-templates-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
    let mut config = MailConfig {
        templates: Some(folder.clone()),
        ..MailConfig::default()
    };
    write("welcome.txt", "Subject: Welcome {{name}}\n\n{{txt}}\n");
    write("welcome.html", "<p>{{txt}}</p>");
    write("README", "not a template");
    let checked = config.checked().map_err(|e| e.to_string()).expect("fine");
    assert_eq!(checked.templates.keys().collect::<Vec<_>>(), ["note", "welcome"]);

    write("welcome.txt", "Subject: Welcome {{who}}\n\n{{txt}}\n");
    assert!(
        said(&config).contains("templates: template welcome.txt, line 1: {{who}}"),
        "{}",
        said(&config)
    );
    write("welcome.txt", "Subject: Welcome\n\n{{amt}}\n");
    assert!(
        said(&config).contains("{{amt}} is no placeholder"),
        "{}",
        said(&config)
    );
    // The same words are right for mail about payments.
    config.pay_template = "welcome".to_owned();
    write("welcome.html", "<p>{{amt}}</p>");
    assert_eq!(said(&config), "fine");
    config.pay_template = "remittance".to_owned();
    write("welcome.txt", "Subject: Welcome\n\nhello\n");
    write("alone.html", "x");
    assert!(
        said(&config).contains("alone.html: has no .txt beside it"),
        "{}",
        said(&config)
    );
    std::fs::remove_file(folder.join("alone.html")).expect("removed");
    write("Big.txt", "x");
    assert!(
        said(&config).contains("Big.txt: a template is called by lowercase"),
        "{}",
        said(&config)
    );
    std::fs::remove_dir_all(&folder).expect("removed");
}
