//! A table that cannot work is refused at the start, by the field's name.

use super::*;

fn config(text: &str) -> RecordsConfig {
    RecordsConfig::from_toml(text).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(text: &str) -> String {
    match RecordsConfig::from_toml(text).and_then(|c| c.checked()) {
        Err(e) => e.to_string(),
        Ok(_) => panic!("accepted: {text}"),
    }
}

#[test]
fn an_empty_table_is_the_labs_file() {
    let config = config("").in_folder(Path::new("/data"));
    assert_eq!(config.path, Path::new("/data/lab/vendors.sqlite"));
    let checked = config.checked().unwrap_or_else(|e| panic!("{e}"));
    assert!(checked.shows_eff && checked.shows_apref && !checked.callback);
}

#[test]
fn paths_count_from_the_data_folder_unless_they_are_absolute() {
    let config =
        config("database = \"postgres\"\ndatabase_url_file = \"pg.url\"\nread_url_file = \"/etc/read.url\"");
    let config = config.in_folder(Path::new("/data"));
    assert_eq!(
        config.database_url_file.as_deref(),
        Some(Path::new("/data/pg.url"))
    );
    assert_eq!(config.read_url_file.as_deref(), Some(Path::new("/etc/read.url")));
    assert!(config.checked().is_ok());
}

#[test]
fn each_field_has_its_rule() {
    for (text, words) in [
        ("database = \"mysql\"", "database: must be"),
        ("callbacks_ref = \"act id\"", "callbacks_ref"),
        (
            "callbacks_ref = \"act\"\n[sql]\ncallback = \"SELECT :sup, :prev, :acct\"",
            "callbacks_ref: must be left out where sql.callback is given",
        ),
        (
            "database = \"postgres\"",
            "database_url_file, database_url_env, database_url_command",
        ),
        (
            "database = \"postgres\"\ndatabase_url_env = \"A\"\ndatabase_url_file = \"f\"",
            "2 are given",
        ),
        (
            "database = \"postgres\"\ndatabase_url_env = \"A=B\"",
            "database_url_env: must be the name",
        ),
        (
            "database = \"postgres\"\ndatabase_url_command = []",
            "database_url_command: must name a program",
        ),
        (
            "database = \"postgres\"\ndatabase_url_env = \"A\"\nread_url_env = \"B\"\nread_url_file = \"f\"",
            "read_url_file, read_url_env, read_url_command",
        ),
        (
            "database = \"postgres\"\ndatabase_url_env = \"A\"\ntimeout_s = 30",
            "settle_window_s: must be at least 3 times timeout_s, which is 90",
        ),
        ("database_url_env = \"A\"", "database: must be \"postgres\""),
        ("plaintext = true", "database: must be \"postgres\""),
        ("path = \"\"", "path: must be"),
        ("table = \"vendor; DROP\"", "table: must be a name"),
        ("table = \"a.b.c\"", "table: must be a name"),
        ("table = \"\"", "table: must be a name"),
        ("acts_table = \"1x\"", "acts_table: must be a name"),
        ("callbacks_table = \"x y\"", "callbacks_table: must be a name"),
        ("[columns]\nacct = \"\"", "columns.acct: must be a name"),
        ("[columns]\neff = \"a\\\"b\"", "columns.eff: must be a name"),
        (
            "[columns]\neff = \"acct\"",
            "columns: must name different columns",
        ),
        ("eff_as = \"iso\"", "eff_as: must be \"text\" or \"date\""),
        ("callback = \"yes\"", "callback: must be \"none\" or \"required\""),
        ("account = \"iban\"", "account: must be \"uk\" or \"any\""),
        ("timeout_s = 0", "timeout_s: must be between 1 and 300"),
        ("settle_window_s = 0", "settle_window_s: must be between"),
        ("concurrency = 0", "concurrency: must be between"),
        ("time_zone = \"UTC\"", "time_zone: must be an offset"),
        (
            "[sql]\nread = \"SELECT 1\"",
            "sql.read: must use :sup (it says \"SELECT 1\")",
        ),
        (
            "database_url = \"postgres://a:b@c/d\"",
            "unknown field `database_url`",
        ),
        ("[sql]\nlookup = \"SELECT 1\"", "unknown field `lookup`"),
    ] {
        let told = refused(text);
        assert!(
            told.starts_with("[adapters.records]") && told.contains(words),
            "{text}: {told}"
        );
    }
}

#[test]
fn the_statements_are_these() {
    let statements = |text: &str| {
        config(text)
            .checked()
            .map(|c| c.statements)
            .unwrap_or_else(|e| panic!("{e}"))
    };
    let file = statements("[columns]\nname = \"\"\nphone = \"\"");
    assert_eq!(
        file.change.sql,
        "UPDATE \"vendor\" SET \"acct\" = ?1, \"eff\" = ?2, \"apref\" = ?3 \
         WHERE \"sup\" = ?4 AND CAST(\"acct\" AS TEXT) = ?5 COLLATE BINARY"
    );
    assert_eq!(
        file.record.map(|r| r.sql).as_deref(),
        Some(
            "INSERT INTO \"wilco_acts\" (ref, ask, sup, prev, acct, eff, apref, at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
        )
    );
    let server = statements(
        "database = \"postgres\"\ndatabase_url_env = \"A\"\ntable = \"pay.vendor\"\neff_as = \"date\"\n\
         [columns]\napref = \"\"",
    );
    assert_eq!(
        server.change.sql,
        "WITH changed AS (UPDATE \"pay\".\"vendor\" SET \"acct\" = $1, \"eff\" = to_date($2, 'YYYYMMDD') \
         WHERE \"sup\" = $3 AND CAST(\"acct\" AS TEXT) = $4 \
         RETURNING CAST(\"sup\" AS TEXT) AS sup, CAST(\"acct\" AS TEXT) AS acct, to_char(\"eff\", 'YYYYMMDD') AS eff, \
         CAST(NULL AS TEXT) AS apref) \
         INSERT INTO \"wilco_acts\" (ref, ask, sup, prev, acct, eff, apref, at) \
         SELECT $5, $6, changed.sup, $4, changed.acct, changed.eff, changed.apref, $7 FROM changed"
    );
    assert!(server.record.is_none());
    assert_ne!(file.read.sql, server.read.sql);
}

/// The README's examples are what they seem.
#[test]
fn the_readme_can_be_copied() {
    let readme = include_str!("../../README.md");
    let blocks: Vec<&str> = readme
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert_eq!(blocks.len(), 2);
    for (block, more) in blocks
        .into_iter()
        .zip(["", "database = \"postgres\"\ndatabase_url_env = \"A\"\n"])
    {
        let block = block
            .replace("[adapters.records]\n", "")
            .replace("[adapters.records.", "[");
        let read = config(&format!("{more}{block}"));
        if more.is_empty() {
            // The first example is the default, written out.
            assert_eq!(format!("{read:?}"), format!("{:?}", RecordsConfig::default()));
        } else {
            assert!(read.sql.read.is_some() && read.sql.change.is_some() && read.sql.callback.is_some());
        }
        read.checked().unwrap_or_else(|e| panic!("{e}"));
    }
}
