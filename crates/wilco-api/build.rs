//! Turns `proto/` into Rust. protox reads the files, so that no system `protoc` is needed.

use std::error::Error;
use std::path::{Path, PathBuf};

use prost::Message;

const FILES: [&str; 4] = [
    "wilco/v1/types.proto",
    "wilco/v1/executor.proto",
    "wilco/v1/operator.proto",
    "wilco/v1/protocol.proto",
];

/// Requests of the JSON API: an unknown field in one of these is a mistake, never ignored.
const REQUESTS: [&str; 7] = [
    "PrepareRequest",
    "CommitRequest",
    "CancelRequest",
    "SettleRequest",
    "ReleaseRequest",
    "PurgeRequest",
    "CheckAdapterRequest",
];

/// Messages that travel as JSON, to clients or to the terminal.
const MESSAGES: [&str; 27] = [
    "Problem",
    "FrozenValue",
    "Happening",
    "Act",
    "PrepareRequest",
    "PrepareReply",
    "CommitRequest",
    "CommitReply",
    "CancelRequest",
    "CancelReply",
    "GetActReply",
    "ListActsReply",
    "GetThreadReply",
    "SettleRequest",
    "SettleReply",
    "ReleaseRequest",
    "ReleaseReply",
    "PurgeRequest",
    "PurgeReply",
    "Doubt",
    "Moment",
    "ListAdaptersReply",
    "Adapter",
    "Service",
    "CheckAdapterRequest",
    "CheckAdapterReply",
    "CheckedCase",
];

fn main() -> Result<(), Box<dyn Error>> {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    for file in FILES {
        println!("cargo:rerun-if-changed={}", proto.join(file).display());
    }
    let mut files = protox::compile(FILES, [&proto])?;

    let mut builder = tonic_prost_build::configure();
    for name in MESSAGES {
        let path = format!(".wilco.v1.{name}");
        builder = builder
            .message_attribute(&path, "#[derive(serde::Serialize, serde::Deserialize)]")
            .message_attribute(&path, "#[serde(default)]");
    }
    for name in REQUESTS {
        builder = builder.message_attribute(format!(".wilco.v1.{name}"), "#[serde(deny_unknown_fields)]");
    }
    builder
        .field_attribute(".wilco.v1.Act.state", "#[serde(with = \"crate::json::state\")]")
        .field_attribute(
            ".wilco.v1.SettleRequest.outcome",
            "#[serde(with = \"crate::json::outcome\")]",
        )
        .field_attribute(
            ".wilco.v1.PrepareRequest.record",
            "#[serde(with = \"crate::json::object\")]",
        )
        .compile_fds(files.clone())?;

    // What reflection serves: the comments stay in the files, where people read them.
    for file in &mut files.file {
        file.source_code_info = None;
    }
    let out = PathBuf::from(std::env::var("OUT_DIR")?).join("wilco.bin");
    std::fs::write(out, files.encode_to_vec())?;
    Ok(())
}
