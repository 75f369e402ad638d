//! A caller that prepares and commits over gRPC.

use prost::Message;
use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use wilco_api::v1::executor_client::ExecutorClient;
use wilco_api::v1::{Act, CommitReply, CommitRequest, PrepareReply, PrepareRequest, State};

use crate::lines::{FIRST_ID, confirmation, handoff};
use crate::load::Caller;

/// One caller, in a thread of its own.
pub struct Sender {
    client: ExecutorClient<Channel>,
    key: MetadataValue<Ascii>,
    thread: String,
    paid: String,
    next_id: u64,
    /// What the first cycle carried, all four messages; 0 before it is over.
    pub bytes: usize,
}

impl Sender {
    pub fn new(channel: Channel, key: &str, thread: String, paid: &str) -> Result<Sender, String> {
        Ok(Sender {
            client: ExecutorClient::new(channel),
            key: format!("Bearer {key}")
                .parse()
                .map_err(|_| "the key is no header")?,
            thread,
            paid: paid.to_owned(),
            next_id: FIRST_ID,
            bytes: 0,
        })
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", self.key.clone());
        request
    }

    fn weigh(&mut self, message: &impl Message) {
        if self.next_id == FIRST_ID + 2 {
            self.bytes += message.encoded_len();
        }
    }

    async fn prepare(&mut self, id: u64) -> Result<PrepareReply, String> {
        let message = PrepareRequest {
            ho: handoff(&self.thread, id, &self.paid),
            thread: self.thread.clone(),
            record: String::new(),
        };
        self.weigh(&message);
        let request = self.request(message);
        let reply = self.client.prepare(request).await;
        Ok(reply.map_err(|s| format!("prepare: {s}"))?.into_inner())
    }

    async fn commit(&mut self, id: u64, prepared: PrepareReply) -> Result<CommitReply, String> {
        let rb_id = prepared.statement.split(' ').nth(2).unwrap_or_default();
        let message = CommitRequest {
            confirmation: confirmation(id, rb_id),
            token: prepared.token,
            statement_sha256: prepared.statement_sha256,
            wait_s: 0,
        };
        self.weigh(&message);
        let request = self.request(message);
        let reply = self.client.commit(request).await;
        Ok(reply.map_err(|s| format!("commit: {s}"))?.into_inner())
    }
}

impl Caller for Sender {
    async fn call(&mut self) -> Result<(), String> {
        let id = self.next_id;
        self.next_id += 2;
        let prepared = self.prepare(id).await?;
        self.weigh(&prepared);
        if prepared.token.is_empty() || prepared.replayed {
            return Err(format!("prepare answered {}", prepared.reply));
        }
        let committed = self.commit(id + 1, prepared).await?;
        self.weigh(&committed);
        let done = |act: &Act| act.state() == State::Done && act.verdict == "match";
        let first_time = committed.reply.starts_with("RW1 DN ") && !committed.replayed;
        match committed.act.as_ref().is_some_and(done) && first_time {
            true => Ok(()),
            false => Err(format!(
                "commit answered {:?} {:?}",
                committed.reply, committed.notes
            )),
        }
    }
}
