//! The ways to a remote: smart HTTP with a token, as hosted repositories speak it (git's own `git-http-backend` behind a few
//! lines of server), and a program in the place of `ssh`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use wilco_adapter::{Found, Outcome, ResolveError};

use crate::support::*;

/// Serves the repositories of a folder to those who have the token; may forget to answer a push.
struct HttpGit {
    port: u16,
    forgets: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl HttpGit {
    async fn serve(folder: PathBuf) -> HttpGit {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let program = PathBuf::from(git(&folder, &["--exec-path"])).join("git-http-backend");
        let forgets = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&forgets);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (folder, program, flag) = (folder.clone(), program.clone(), Arc::clone(&flag));
                tokio::spawn(async move {
                    // A client that goes away is no failure of the server.
                    let _ = answer(stream, &folder, &program, &flag).await;
                });
            }
        });
        HttpGit { port, forgets, task }
    }
}

impl Drop for HttpGit {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One request on one connection, as CGI (RFC 3875).
async fn answer(
    stream: TcpStream,
    folder: &Path,
    program: &Path,
    forgets: &AtomicBool,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = std::collections::BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((key, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.insert(key.to_ascii_lowercase(), value.to_owned());
    }
    let header = |key: &str| headers.get(key).cloned().unwrap_or_default();
    let body = match header("transfer-encoding").as_str() {
        "chunked" => chunks(&mut stream).await?,
        _ => {
            let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
            stream.read_exact(&mut body).await?;
            body
        }
    };
    // "deployer:s3cret"
    if header("authorization") != "Basic ZGVwbG95ZXI6czNjcmV0" {
        let no = b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        return stream.get_mut().write_all(no).await;
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut child = tokio::process::Command::new(program)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_PROJECT_ROOT", folder)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REMOTE_USER", "deployer")
        .env("REQUEST_METHOD", &method)
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&body).await?;
    }
    let said = child.wait_with_output().await?.stdout;
    if path.ends_with("git-receive-pack") && method == "POST" && forgets.load(Ordering::SeqCst) {
        return Ok(());
    }
    let end = said.windows(4).position(|w| w == b"\r\n\r\n").unwrap_or(0);
    let head = String::from_utf8_lossy(&said[..end]).into_owned();
    let status = head
        .lines()
        .find_map(|l| l.strip_prefix("Status: "))
        .unwrap_or("200 OK")
        .to_owned();
    let text = format!(
        "HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        said.len() - end - 4
    );
    stream.get_mut().write_all(text.as_bytes()).await?;
    stream.get_mut().write_all(&said[end + 4..]).await
}

async fn chunks(stream: &mut BufReader<TcpStream>) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let size = usize::from_str_radix(line.trim_end(), 16).unwrap_or(0);
        let mut chunk = vec![0; size + 2];
        stream.read_exact(&mut chunk).await?;
        if size == 0 {
            return Ok(body);
        }
        body.extend_from_slice(&chunk[..size]);
    }
}

async fn over_http(token: &str) -> (HttpGit, GitScene) {
    let temp = Temp::new();
    repositories(&temp.0);
    git(
        &temp.0.join("remote.git"),
        &["config", "http.receivepack", "true"],
    );
    std::fs::write(temp.0.join("token"), format!("{token}\n")).expect("written");
    let server = HttpGit::serve(temp.0.clone()).await;
    let url = format!("http://127.0.0.1:{}/remote.git", server.port);
    let more = "user = \"deployer\"\ntoken_file = \"token\"";
    let scene = GitScene::at(temp, &url, "timeout_s = 20\nsettle_window_s = 40", more);
    (server, scene)
}

#[tokio::test]
async fn over_http_with_a_token_all_is_as_it_is_elsewhere() {
    let (server, scene) = over_http("s3cret").await;
    let (job, frozen) = scene.deployed("v2").await;
    assert_eq!(
        (scene.live(), scene.moves(), scene.records().len()),
        (scene.commit("v2"), 1, 1)
    );
    executed(scene.execute(&job, &frozen).await);
    assert_eq!(scene.moves(), 1);

    // The reply is lost after the effect.
    let job = scene.deploy("v3");
    let frozen = scene.prepare(&job).await;
    server.forgets.store(true, Ordering::SeqCst);
    match scene.execute(&job, &frozen).await {
        Outcome::Unknown(text) => assert!(!text.contains("s3cret"), "{text}"),
        other => panic!("nobody answered: {other:?}"),
    }
    server.forgets.store(false, Ordering::SeqCst);
    found(scene.lookup(&job, &frozen).await);
    assert_eq!((scene.live(), scene.moves()), (scene.commit("v3"), 2));

    // Moved since prepare, and a refusal.
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    scene.move_by_hand("v1");
    assert!(matches!(scene.execute(&job, &frozen).await, Outcome::NotSent(_)));
    let frozen = scene.prepare(&job).await;
    scene.hook("pre-receive", "cat > /dev/null; exit 1");
    assert!(matches!(scene.execute(&job, &frozen).await, Outcome::Rejected(_)));
    assert_eq!((scene.live(), scene.moves()), (scene.commit("v1"), 3));
}

#[tokio::test]
async fn a_token_that_is_refused_or_missing_is_no_verdict_and_is_not_shown() {
    let (_server, scene) = over_http("wr0ng").await;
    match scene.adapter_resolve("v2").await {
        Err(ResolveError::Passing(text)) => assert!(!text.contains("wr0ng"), "{text}"),
        other => panic!("{other:?}"),
    }
    std::fs::write(scene.temp.0.join("token"), "s3cret").expect("written");
    let job = scene.deploy("v2");
    let frozen = scene.prepare(&job).await;
    std::fs::write(scene.temp.0.join("token"), "wr0ng").expect("written");
    match scene.execute(&job, &frozen).await {
        Outcome::NotSent(text) => assert!(!text.contains("wr0ng"), "{text}"),
        other => panic!("{other:?}"),
    }
    std::fs::remove_file(scene.temp.0.join("token")).expect("removed");
    assert!(matches!(scene.execute(&job, &frozen).await, Outcome::NotSent(_)));
    assert!(matches!(scene.lookup(&job, &frozen).await, Found::Unknown(_)));
    assert_eq!(scene.moves(), 0);
}

#[tokio::test]
async fn ssh_is_the_program_that_is_named() {
    let temp = Temp::new();
    repositories(&temp.0);
    // In the place of ssh: drops the options and the host, and runs what the other side would.
    let ssh = temp.0.join("ssh");
    let script = "#!/bin/sh\nfor last; do :; done\necho \"$@\" >> \"$(dirname \"$0\")/called\"\nexec sh -c \"$last\"\n";
    std::fs::write(&ssh, script).expect("written");
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).expect("it is there");
    let url = format!(
        "ssh://deployer@git.example{}",
        temp.0.join("remote.git").display()
    );
    let more = format!("ssh_command = [{:?}]", ssh.display().to_string());
    let scene = GitScene::at(temp, &url, "", &more);
    let (job, frozen) = scene.deployed("v2").await;
    found(scene.lookup(&job, &frozen).await);
    assert_eq!((scene.live(), scene.moves()), (scene.commit("v2"), 1));
    let called = std::fs::read_to_string(scene.temp.0.join("called")).expect("it was called");
    assert!(
        called.contains("BatchMode=yes") && called.contains("deployer@git.example"),
        "{called}"
    );
}
