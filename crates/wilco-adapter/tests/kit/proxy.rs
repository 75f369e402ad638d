//! After: the line itself. What arrives at the server and what at the client, byte for byte, for each way to break it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wilco_adapter::kit::{Break, FaultProxy};

type Heard = Arc<Mutex<Vec<Vec<u8>>>>;

/// A server that answers each line with the same line, and writes down what each connection said.
async fn echo() -> (SocketAddr, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let addr = listener.local_addr().expect("bound");
    let heard = Heard::default();
    let ear = heard.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let ear = ear.clone();
            let place = {
                let mut ear = ear.lock().expect("whole");
                ear.push(Vec::new());
                ear.len() - 1
            };
            tokio::spawn(async move {
                let (mut bytes, mut said) = (vec![0; 1024], 0);
                while let Ok(n @ 1..) = stream.read(&mut bytes).await {
                    let line = {
                        let mut ear = ear.lock().expect("whole");
                        let own = ear.get_mut(place).expect("pushed above");
                        own.extend_from_slice(&bytes[..n]);
                        let line = own[said..].to_vec();
                        line.ends_with(b"\n").then(|| {
                            said = own.len();
                            line
                        })
                    };
                    if let Some(line) = line
                        && stream.write_all(&line).await.is_err()
                    {
                        break;
                    }
                }
            });
        }
    });
    (addr, heard)
}

/// Says `one` and then `two`; returns what was answered until the line broke.
async fn talk(proxy: &FaultProxy) -> String {
    let mut heard = Vec::new();
    let Ok(mut stream) = TcpStream::connect(proxy.addr()).await else {
        return "refused".to_owned();
    };
    for line in ["one\n", "two\n"] {
        let mut answer = vec![0; 1024];
        if stream.write_all(line.as_bytes()).await.is_err() {
            break;
        }
        let answered =
            tokio::time::timeout(std::time::Duration::from_millis(500), stream.read(&mut answer)).await;
        match answered {
            Ok(Ok(n @ 1..)) => heard.extend_from_slice(&answer[..n]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&heard).into_owned()
}

#[tokio::test]
async fn each_break_lets_through_what_it_says() {
    let garbage = Break::Garbage(b"rhubarb\n".to_vec());
    // Broken in the second turn: what the client hears, and what the server has heard in the end.
    let cases: [(Break, &str, &[&str]); 9] = [
        (Break::CutBefore, "one\n", &["one\n"]),
        (Break::CutMiddle(2), "one\n", &["one\ntw"]),
        (Break::CutAfter, "one\n", &["one\ntwo\n"]),
        (Break::CutReply, "one\n", &["one\ntwo\n"]),
        (Break::CutInReply, "one\ntw", &["one\ntwo\n"]),
        (Break::Hold, "one\n", &["one\ntwo\n"]),
        (Break::Late, "one\n", &["one\ntwo\n"]),
        (garbage, "one\nrhubarb\n", &["one\ntwo\n"]),
        (Break::Duplicate, "one\ntwo\n", &["one\ntwo\n", "one\ntwo\n"]),
    ];
    for (how, at_client, at_server) in cases {
        let (addr, heard) = echo().await;
        let proxy = FaultProxy::to(addr).await.expect("a port");
        proxy.begin();
        proxy.arm(0, 1, how.clone());
        assert_eq!(talk(&proxy).await, at_client, "{how:?}, at the client");
        assert!(proxy.hit(), "{how:?} was met");
        let so_far = || {
            let heard = heard.lock().expect("whole");
            heard
                .iter()
                .map(|h| String::from_utf8_lossy(h).into_owned())
                .collect::<Vec<_>>()
        };
        if how == Break::Late {
            assert_eq!(so_far(), ["one\n"], "kept back until it is released");
            proxy.release();
        }
        proxy.quiet().await;
        // What the proxy has written may still be on its way to the server's ear.
        for _ in 0..200 {
            if so_far() == at_server {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert_eq!(so_far(), at_server, "{how:?}, at the server");
    }
}

#[tokio::test]
async fn a_pause_ends_when_it_is_told_to() {
    let (addr, _) = echo().await;
    let proxy = FaultProxy::to(addr).await.expect("a port");
    proxy.begin();
    proxy.arm(0, 0, Break::Pause);
    let release = async {
        while !proxy.hit() {
            tokio::task::yield_now().await;
        }
        proxy.release();
    };
    let (said, ()) = tokio::join!(talk(&proxy), release);
    assert_eq!(said, "one\ntwo\n");
}

#[tokio::test]
async fn an_answer_in_pieces_is_whole_in_the_end() {
    let (addr, _) = echo().await;
    let proxy = FaultProxy::to(addr).await.expect("a port");
    proxy.begin();
    proxy.arm(0, 0, Break::Dribble);
    let mut stream = TcpStream::connect(proxy.addr()).await.expect("taken");
    let line = [b"a".repeat(999), b"\n".to_vec()].concat();
    stream.write_all(&line).await.expect("taken");
    let (mut heard, mut pieces) = (Vec::new(), 0);
    while heard.len() < line.len() {
        let mut bytes = vec![0; 1024];
        let n = stream.read(&mut bytes).await.expect("answered");
        heard.extend_from_slice(&bytes[..n]);
        pieces += 1;
    }
    assert_eq!(heard, line);
    assert!(pieces > 1, "it came in one piece");
}

#[tokio::test]
async fn what_went_by_is_written_down_by_turns() {
    let (addr, _) = echo().await;
    let proxy = FaultProxy::to(addr).await.expect("a port");
    talk(&proxy).await;
    proxy.begin();
    talk(&proxy).await;
    let conversations = proxy.conversations();
    let said = conversations[0]
        .turns
        .iter()
        .map(|t| (t.said.as_slice(), t.answered));
    let said: Vec<(&[u8], usize)> = said.collect();
    assert_eq!(said, [(b"one\n".as_slice(), 4), (b"two\n".as_slice(), 4)]);
    assert_eq!(conversations.len(), 1, "counted from begin()");
}

#[tokio::test]
async fn refused_connections_are_refused_and_come_back_on_the_same_port() {
    let (addr, heard) = echo().await;
    let proxy = FaultProxy::to(addr).await.expect("a port");
    let port = proxy.addr();
    for _ in 0..3 {
        proxy.refuse(true).await;
        assert_eq!(talk(&proxy).await, "refused");
        proxy.refuse(false).await;
        assert_eq!(talk(&proxy).await, "one\ntwo\n");
    }
    assert_eq!(proxy.addr(), port);
    assert_eq!(
        heard.lock().expect("whole").len(),
        3,
        "nothing arrived while it refused"
    );
}
