//! What gRPC allows: a server that answers each call with what it was sent, in a process of its own.

use std::convert::Infallible;
use std::process::Stdio;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::codegen::{Body, BoxFuture, Service, StdError, http};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use wilco_api::v1::LineReply;

use crate::load::{self, Caller, Run};

/// The argument that makes this program the server.
pub const SERVE: &str = "--serve-echo";

const NAME: &str = "wilco.bench.Echo";
const PATH: &str = "/wilco.bench.Echo/Echo";

/// The server's process.
pub struct Echo {
    url: String,
    _process: Child,
}

impl Echo {
    pub async fn start() -> Result<Echo, String> {
        let exe = std::env::current_exe().map_err(|e| format!("where this program lies: {e}"))?;
        let mut process = Command::new(exe)
            .arg(SERVE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| format!("the echo server: {e}"))?;
        let stdout = process.stdout.take().ok_or("the echo server has no output")?;
        let mut url = String::new();
        let read = BufReader::new(stdout).read_line(&mut url).await;
        read.map_err(|e| format!("the echo server: {e}"))?;
        Ok(Echo {
            url: url.trim().to_owned(),
            _process: process,
        })
    }

    /// Lets so many callers call it, with so many bytes each way.
    pub async fn run(&self, callers: usize, bytes: usize, time: Duration) -> Result<Run, String> {
        let channels = load::channels(&self.url, callers).await?;
        let callers = channels.into_iter().map(|c| EchoCaller::new(c, bytes));
        load::run(callers.collect(), time).await
    }
}

/// Serves until its standard input closes, which it does when the bench ends, however it ends.
pub fn serve() -> Result<(), String> {
    let runtime = tokio::runtime::Runtime::new().map_err(|e| format!("no runtime: {e}"))?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .map_err(|e| e.to_string())?;
        let address = listener.local_addr().map_err(|e| e.to_string())?;
        println!("http://{address}");
        // A listener of our own means that the flag is ours to set, too: without it, answers wait 40 ms.
        let connections = tokio_stream::StreamExt::map(TcpListenerStream::new(listener), |stream| {
            stream.and_then(|stream| stream.set_nodelay(true).map(|()| stream))
        });
        let (close, closed) = tokio::sync::oneshot::channel::<()>();
        std::thread::spawn(move || {
            let _open = close;
            // An error is an end, too.
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        });
        tonic::transport::Server::builder()
            .add_service(EchoServer)
            .serve_with_incoming_shutdown(connections, async { drop(closed.await) })
            .await
            .map_err(|e| e.to_string())
    })
}

/// A caller of the server.
struct EchoCaller {
    client: tonic::client::Grpc<Channel>,
    line: String,
}

impl EchoCaller {
    /// `bytes` travel in each direction.
    fn new(channel: Channel, bytes: usize) -> EchoCaller {
        EchoCaller {
            client: tonic::client::Grpc::new(channel),
            line: "x".repeat(bytes),
        }
    }
}

impl Caller for EchoCaller {
    async fn call(&mut self) -> Result<(), String> {
        let request = Request::new(LineReply {
            line: self.line.clone(),
        });
        self.client.ready().await.map_err(|e| format!("echo: {e}"))?;
        let codec = ProstCodec::<LineReply, LineReply>::default();
        let path = http::uri::PathAndQuery::from_static(PATH);
        let answer = self.client.unary(request, path, codec).await;
        let answer = answer.map_err(|e| format!("echo: {e}"))?.into_inner();
        if answer.line == self.line {
            Ok(())
        } else {
            Err("the echo server answered something else".to_owned())
        }
    }
}

#[derive(Clone)]
struct EchoServer;

impl NamedService for EchoServer {
    const NAME: &'static str = NAME;
}

impl UnaryService<LineReply> for EchoServer {
    type Response = LineReply;
    type Future = BoxFuture<Response<LineReply>, Status>;

    fn call(&mut self, request: Request<LineReply>) -> Self::Future {
        Box::pin(async move { Ok(Response::new(request.into_inner())) })
    }
}

impl<B> Service<http::Request<B>> for EchoServer
where
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        Box::pin(async move {
            let codec = ProstCodec::<LineReply, LineReply>::default();
            Ok(tonic::server::Grpc::new(codec).unary(EchoServer, request).await)
        })
    }
}
