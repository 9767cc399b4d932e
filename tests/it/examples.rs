//! The SDK's examples do what they say.

use client::ConnectOptions;

use crate::support::Server;

#[path = "../../client/examples/consumer.rs"]
#[allow(dead_code)]
mod consumer;
#[path = "../../client/examples/quickstart.rs"]
#[allow(dead_code)]
mod quickstart;
#[path = "../../client/examples/replay.rs"]
#[allow(dead_code)]
mod replay;
#[path = "../../client/examples/writer.rs"]
#[allow(dead_code)]
mod writer;

fn options(server: &Server) -> ConnectOptions {
    ConnectOptions { host: server.address().to_owned(), ..ConnectOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_runs() {
    let server = Server::start();
    quickstart::run(options(&server)).await.expect("quickstart");
    let server = Server::start();
    writer::run(options(&server)).await.expect("writer");
    let server = Server::start();
    consumer::run(options(&server)).await.expect("consumer");
    let server = Server::start();
    replay::run(options(&server)).await.expect("replay");
}
