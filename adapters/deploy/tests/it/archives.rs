//! Archives: what they may hold, and what hostile ones are refused for. Nothing is ever made outside the release.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

use crate::support::*;

fn zipped(tar: &[u8]) -> Vec<u8> {
    let mut zip = GzEncoder::new(Vec::new(), Compression::fast());
    zip.write_all(tar).expect("zipped");
    zip.finish().expect("zipped")
}

/// One entry whose name and link are written as they are, whatever they say.
fn entry(kind: EntryType, name: &str, link: &str, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().div_ceil(512) * 512, 0);
    bytes
}

fn archive(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut tar = entries.concat();
    tar.extend_from_slice(&[0; 1024]);
    zipped(&tar)
}

fn file(name: &str, content: &str) -> Vec<u8> {
    entry(EntryType::Regular, name, "", content.as_bytes())
}

fn link(name: &str, to: &str) -> Vec<u8> {
    entry(EntryType::Symlink, name, to, b"")
}

#[tokio::test]
async fn a_good_archive_is_unpacked_as_it_is() {
    let long = "a-folder-with-a-long-name/".repeat(8);
    let mut builder = Builder::new(Vec::new());
    let mut add = |name: &str, mode: u32, content: &str| {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        builder
            .append_data(&mut header, name, content.as_bytes())
            .expect("added");
    };
    add("api/app", 0o4777, "v7");
    add("api/config", 0o600, "x=1");
    add(&format!("api/{long}part"), 0o644, "part");
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Symlink);
    header.set_size(0);
    builder
        .append_link(&mut header, "api/lib/app", "../app")
        .expect("added");
    let bytes = zipped(&builder.into_inner().expect("an archive"));

    let scene = FolderScene::with("strip = 1");
    let at = scene.archive_artefact("v7", &bytes);
    let (_, frozen) = scene.deployed("v7").await;
    let sum = std::process::Command::new("sha256sum")
        .arg(at)
        .output()
        .expect("sha256sum, of coreutils");
    let sum = String::from_utf8_lossy(&sum.stdout)
        .split(' ')
        .next()
        .unwrap_or_default()
        .to_owned();
    assert_eq!(extra(&frozen, "x_digest"), format!("sha256:{sum}"));
    let current = scene.live().join("current");
    let mode = |name: &str| {
        fs::metadata(current.join(name))
            .expect("it is there")
            .permissions()
            .mode()
            & 0o7777
    };
    assert_eq!(
        (scene.app().as_str(), mode("app"), mode("config")),
        ("v7", 0o755, 0o644)
    );
    assert_eq!(
        fs::read_to_string(current.join("lib/app")).expect("the link leads there"),
        "v7"
    );
    assert!(current.join(long).join("part").is_file());
}

#[tokio::test]
async fn a_hostile_archive_is_refused_and_leaves_nothing() {
    let secret = Temp::new();
    let outside = secret.0.display().to_string();
    let cut = {
        let whole = archive(&[file("app", &"x".repeat(100_000))]);
        whole[..whole.len() / 2].to_vec()
    };
    let damaged = {
        let mut whole = archive(&[file("app", "x")]);
        let at = whole.len() - 6;
        whole[at] ^= 0xff;
        whole
    };
    let pax = |text: &str| entry(EntryType::XHeader, "pax", "", text.as_bytes());
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("leads outside", archive(&[file("../evil", "x")])),
        ("leads outside", archive(&[file("a/../../evil", "x")])),
        ("leads outside", archive(&[file(&format!("{outside}/evil"), "x")])),
        (
            "leads outside",
            archive(&[pax("19 path=../../evil\n"), file("app", "x")]),
        ),
        (
            "leads outside",
            archive(&[file("app", "x"), link("l", "/etc/passwd")]),
        ),
        ("leads outside", archive(&[file("app", "x"), link("l", "../..")])),
        (
            "leads outside",
            archive(&[file("app", "x"), link("l", "nowhere")]),
        ),
        // Over links, `..` is not where it looks.
        (
            "leads outside",
            archive(&[
                file("a/b/app", "x"),
                link("a/b/up", "../.."),
                link("l", "a/b/up/../x"),
            ]),
        ),
        // A file by way of a link: the link is not made yet, so there is no way.
        (
            "leads outside",
            archive(&[link("d", &outside), file("d/evil", "x")]),
        ),
        ("is there twice", archive(&[link("d", "e"), file("d/evil", "x")])),
        ("leads outside", archive(&[file("app", "x"), link("d", &outside)])),
        ("is there twice", archive(&[file("app", "x"), file("app", "y")])),
        (
            "a file and a folder",
            archive(&[file("app", "x"), file("app/part", "y")]),
        ),
        (
            "neither file",
            archive(&[entry(EntryType::Link, "l", "/etc/passwd", b"")]),
        ),
        ("neither file", archive(&[entry(EntryType::Fifo, "f", "", b"")])),
        ("neither file", archive(&[entry(EntryType::Char, "c", "", b"")])),
        ("neither file", archive(&[entry(EntryType::Block, "b", "", b"")])),
        ("no plain text", archive(&[file("a\nb", "x")])),
        (
            "too long",
            archive(&[
                entry(EntryType::GNULongName, "n", "", &[b'a'; 9_000]),
                file("app", "x"),
            ]),
        ),
        (
            "too long",
            archive(&[
                entry(EntryType::XHeader, "n", "", &[b'a'; 70_000]),
                file("app", "x"),
            ]),
        ),
        ("max_bytes", archive(&[file("app", &"x".repeat(60_000))])),
        (
            "max_entries",
            archive(&(0..60).map(|n| file(&format!("f{n}"), "")).collect::<Vec<_>>()),
        ),
        ("it is empty", archive(&[])),
        ("to its end", cut),
        ("to its end", damaged),
        ("to its end", b"this is no archive".to_vec()),
        ("to its end", zipped(&[0x41; 4096])),
    ];
    for (n, (named, bytes)) in cases.into_iter().enumerate() {
        let scene = FolderScene::with("max_bytes = 50000\nmax_entries = 50");
        scene.archive_artefact("v7", &bytes);
        let (why, text) = refusal(&scene.adapter, &scene.deploy("v7")).await;
        let by_name = why == "SCOPE" && text.contains("api-v7.tar.gz") && text.contains(named);
        assert!(by_name, "{n} {named}: {why} {text}");
        let left: Vec<_> = fs::read_dir(scene.live().join("releases"))
            .expect("it is there")
            .collect();
        assert!(left.is_empty(), "{n} {named}: {left:?}");
        assert!(!scene.live().join("evil").exists() && !scene.temp.0.join("evil").exists());
    }
    assert_eq!(fs::read_dir(&secret.0).expect("it is there").count(), 0);
}

/// A file under a long name, as GNU tar writes it.
fn long(name: &str) -> Vec<u8> {
    let mut entry = entry(EntryType::GNULongName, "././@LongLink", "", name.as_bytes());
    entry.extend(file("cut", "x"));
    entry
}

#[tokio::test]
async fn a_name_that_no_file_system_takes_is_refused_and_not_tried_again() {
    let scene = FolderScene::new();
    let part = "n".repeat(300);
    // Each part is short enough, and all of them are not.
    let path = format!("{}x", format!("{}/", "p".repeat(250)).repeat(16));
    let mut far = entry(EntryType::GNULongLink, "././@LongLink", "", path.as_bytes());
    far.extend(link("l", "cut"));
    for (n, (bytes, named)) in [
        (long(&part), "nnnnn"),
        (long(&format!("a/{part}/app")), "nnnnn"),
        (long(&path), "pppp"),
        (far, "leads outside"),
    ]
    .into_iter()
    .enumerate()
    {
        let version = format!("v{}", n + 7);
        scene.archive_artefact(&version, &archive(&[file("app", "x"), bytes]));
        let (why, text) = refusal(&scene.adapter, &scene.deploy(&version)).await;
        assert!(why == "SCOPE" && text.contains(named), "{n}: {why} {text}");
    }
    // The longest that is one.
    scene.archive_artefact("v6", &archive(&[file("app", "x"), long(&"n".repeat(255))]));
    scene.deployed("v6").await;
}

#[tokio::test]
async fn what_unpacks_to_more_than_it_may_is_given_up_early() {
    // A megabyte of zeros is a kilobyte, zipped: forty of them behind an innocent first file.
    let mut tar = file("app", "x");
    tar.extend(entry(EntryType::Regular, "zeros", "", &vec![0; 40 * 1024 * 1024]));
    let scene = FolderScene::with("max_bytes = 1000000\nmax_entries = 50");
    scene.archive_artefact("v7", &zipped(&tar));
    let (why, text) = refusal(&scene.adapter, &scene.deploy("v7")).await;
    assert!(why == "SCOPE" && text.contains("max_bytes"), "{why} {text}");
    // Nor may it hide behind what is skipped.
    let mut tar = file("app", "x");
    tar.extend_from_slice(&[0; 1024]);
    tar.extend(vec![0; 40 * 1024 * 1024]);
    scene.archive_artefact("v8", &zipped(&tar));
    assert_eq!(refusal(&scene.adapter, &scene.deploy("v8")).await.0, "SCOPE");
}

#[tokio::test]
async fn a_folder_is_held_to_the_same_rules() {
    let scene = FolderScene::with("max_bytes = 50000\nmax_entries = 50");
    let at = scene.folder_artefact("v7", &[("app", "x")]);
    std::os::unix::fs::symlink("/etc/passwd", at.join("l")).expect("linked");
    let (why, text) = refusal(&scene.adapter, &scene.deploy("v7")).await;
    assert!(why == "SCOPE" && text.contains("leads outside"), "{why} {text}");
    fs::remove_file(at.join("l")).expect("removed");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .expect("a pipe");
    assert!(
        refusal(&scene.adapter, &scene.deploy("v7"))
            .await
            .1
            .contains("neither file")
    );
    fs::remove_file(at.join("pipe")).expect("removed");
    fs::write(at.join("big"), vec![0; 60_000]).expect("written");
    assert!(
        refusal(&scene.adapter, &scene.deploy("v7"))
            .await
            .1
            .contains("max_bytes")
    );
}
