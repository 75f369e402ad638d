//! gRPC: the services of `wilco.v1`, with reflection and health. Each call is its verb, nothing more.

mod executor;
mod operator;
mod protocol;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tonic::metadata::MetadataMap;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use wilco_api::FILE_DESCRIPTOR_SET;
use wilco_api::v1::executor_server::ExecutorServer;
use wilco_api::v1::operator_server::OperatorServer;
use wilco_api::v1::protocol_server::ProtocolServer;

use crate::app::App;

/// How often the health service is told how things stand.
const HEALTH_EVERY: Duration = Duration::from_secs(1);

/// The services as routes of the one port, and what tells the health service how things stand.
///
/// # Errors
/// The descriptors built into this program are unusable, which its tests would have shown.
pub fn router(
    app: &Arc<App>,
    message_max: usize,
) -> Result<(Router, Health), tonic_reflection::server::Error> {
    let (reporter, health) = tonic_health::server::health_reporter();
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let executor =
        ExecutorServer::new(executor::Service(Arc::clone(app))).max_decoding_message_size(message_max);
    let operator =
        OperatorServer::new(operator::Service(Arc::clone(app))).max_decoding_message_size(message_max);
    let protocol =
        ProtocolServer::new(protocol::Service(Arc::clone(app))).max_decoding_message_size(message_max);
    let routes = Routes::new(executor)
        .add_service(operator)
        .add_service(protocol)
        .add_service(health)
        // Clients in the field still ask for the older name of the same service.
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    Ok((
        routes.prepare().into_axum_router(),
        Health {
            reporter,
            app: Arc::clone(app),
        },
    ))
}

/// Keeps the health service true.
pub struct Health {
    reporter: HealthReporter,
    app: Arc<App>,
}

impl Health {
    /// Tells how things stand now.
    pub async fn tell(&self) {
        let status = match self.app.ready() {
            Ok(()) => ServingStatus::Serving,
            Err(_) => ServingStatus::NotServing,
        };
        for name in ["", "wilco.v1.Executor", "wilco.v1.Operator"] {
            self.reporter.set_service_status(name, status).await;
        }
        // Stateless: it answers as long as the process does.
        self.reporter
            .set_service_status("wilco.v1.Protocol", ServingStatus::Serving)
            .await;
    }

    /// Tells it again and again; ends with the runtime.
    pub async fn keep_telling(self) {
        loop {
            self.tell().await;
            tokio::time::sleep(HEALTH_EVERY).await;
        }
    }
}

/// The caller's key as it stands in the metadata.
fn key(metadata: &MetadataMap) -> Option<Vec<u8>> {
    metadata
        .get("authorization")
        .map(|value| value.as_encoded_bytes().to_vec())
}
