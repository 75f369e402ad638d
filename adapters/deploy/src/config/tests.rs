//! Every rule of the table is named by its field.

use super::*;

const FOLDER: &str = "[targets.api-prod]\nkind = \"folder\"\nservice = \"api\"\nenv = \"PROD\"\nfolder = \"live\"\nartefacts = \"artefacts\"\n";
const GIT: &str = "[targets.api-prod]\nkind = \"git\"\nservice = \"api\"\nenv = \"PROD\"\nremote = \"https://git.example/api.git\"\nbranch = \"prod\"\n";

fn refused(text: &str) -> String {
    match DeployConfig::from_toml(text).and_then(|c| c.checked()) {
        Ok(_) => panic!("taken: {text}"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn both_kinds_are_read() {
    for text in [FOLDER, GIT] {
        let config = DeployConfig::from_toml(text).unwrap_or_else(|e| panic!("{e}"));
        let checked = config.checked().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(checked.targets[0].place.name, "api-prod");
    }
}

#[test]
fn a_rule_that_is_broken_is_named_with_its_target_and_field() {
    let cases = [
        ("timeout_s = 0\n", FOLDER, "", "timeout_s"),
        ("timeout_s = 100\n", FOLDER, "", "settle_window_s"),
        ("", FOLDER, "strip = 9\n", ".targets.api-prod] strip"),
        ("", FOLDER, "health = []\n", "health"),
        ("", FOLDER, "time_zone = \"Mars\"\n", "time_zone"),
        ("", FOLDER, "name = \"../api\"\n", "name"),
        ("", FOLDER, "colour = 1\n", "colour"),
        ("", FOLDER, "window = \"perhaps\"\n", "perhaps"),
        ("", GIT, "source = \"ext::sh -c id\"\n", "source"),
        ("", GIT, "source = \"http://git.example/x\"\n", "source"),
        ("", GIT, "source = \"--upload-pack=x\"\n", "source"),
        ("", GIT, "records = \"refs/heads/x\"\n", "records"),
        ("", GIT, "user = \"deploy\"\n", "user"),
        ("", GIT, "token_file = \"a\"\ntoken_env = \"B\"\n", "token_file"),
        ("", GIT, "ssh_command = [\"ssh; id\"]\n", "ssh_command"),
    ];
    for (before, table, after, named) in cases {
        let said = refused(&format!("{before}{table}{after}"));
        assert!(said.contains(named), "{said} does not name {named}");
    }
    assert!(refused("timeout_s = 1\n").contains("targets"));
    let twice = format!("{FOLDER}{}", FOLDER.replace("api-prod", "api-again"));
    let said = refused(&twice);
    assert!(
        said.contains("service") && said.contains("target api-again"),
        "{said}"
    );
}

#[test]
fn two_targets_that_change_the_same_place_are_refused_by_name() {
    let again = |table: &str| {
        table
            .replace("api-prod", "web-prod")
            .replace("\"api\"", "\"web\"")
    };
    for (other, field) in [
        (again(FOLDER), "folder"),
        (again(FOLDER).replace("\"live\"", "\"x/../live/\""), "folder"),
        (again(GIT), "branch"),
        (again(GIT).replace("api.git", "api/"), "branch"),
    ] {
        let first = if field == "folder" { FOLDER } else { GIT };
        let said = refused(&format!("{first}{other}"));
        let named = [".targets.web-prod]", field, "target api-prod"];
        assert!(named.iter().all(|n| said.contains(n)), "{said}");
    }
    for other in [
        again(GIT).replace("\"prod\"", "\"stage\""),
        again(FOLDER).replace("live", "live2"),
    ] {
        let first = if other.contains("git") { GIT } else { FOLDER };
        let config = DeployConfig::from_toml(&format!("{first}{other}")).unwrap_or_else(|e| panic!("{e}"));
        assert!(config.checked().is_ok(), "{other}");
    }
}

#[test]
fn a_password_in_an_address_is_refused_and_not_shown() {
    let said = refused(&GIT.replace("https://git", "https://me:hunter2@git"));
    assert!(said.contains("remote") && !said.contains("hunter2"), "{said}");
}

#[test]
fn relative_paths_count_from_the_data_folder_and_addresses_stay() {
    let data = Path::new("/data");
    let text = format!("{GIT}source = \"mirror/api.git\"\n");
    let config = DeployConfig::from_toml(&text)
        .unwrap_or_else(|e| panic!("{e}"))
        .in_folder(data);
    assert_eq!(config.work, Path::new("/data/deploy"));
    match &config.targets["api-prod"] {
        TargetConfig::Git(git) => {
            assert_eq!(git.remote, "https://git.example/api.git");
            assert_eq!(git.source.as_deref(), Some("/data/mirror/api.git"));
        }
        TargetConfig::Folder(_) => panic!("it is a git target"),
    }
    assert_eq!(check::remote_in("me@host:api.git", data), "me@host:api.git");
    assert_eq!(check::remote_in("/srv/a:b.git", data), "/srv/a:b.git");
}
