//! The wire: the types and services of `proto/wilco/v1`, their JSON forms, and their conversions from the core.
//!
//! Here live generated code ([`v1`]), the JSON form of its messages ([`json`]) and what turns an act of the core into
//! the act that clients see ([`convert`]). What never lives here: a rule, a default, or IO. To add a call: write it in
//! `proto/`, list its messages in `build.rs` if they travel as JSON, and convert its types in [`convert`].

pub mod convert;
pub mod json;

/// Generated from `proto/wilco/v1`: messages, clients and servers.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod v1 {
    tonic::include_proto!("wilco.v1");
}

/// The descriptors of every file in `proto/wilco/v1`, as gRPC reflection serves them.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/wilco.bin"));
