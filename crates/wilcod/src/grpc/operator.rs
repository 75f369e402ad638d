//! `wilco.v1.Operator`.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use wilco_api::v1;
use wilco_api::v1::operator_server::Operator;

use super::key;
use crate::app::App;
use crate::{errors, verbs};

/// The service.
pub struct Service(pub Arc<App>);

#[tonic::async_trait]
impl Operator for Service {
    async fn settle(&self, request: Request<v1::SettleRequest>) -> Result<Response<v1::SettleReply>, Status> {
        let key = key(request.metadata());
        let answer = verbs::settle(&self.0, key.as_deref(), request.into_inner()).await;
        answer
            .map(Response::new)
            .map_err(|refusal| errors::status(&refusal))
    }
    async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseReply>, Status> {
        let key = key(request.metadata());
        let answer = verbs::release(&self.0, key.as_deref(), request.into_inner()).await;
        answer
            .map(Response::new)
            .map_err(|refusal| errors::status(&refusal))
    }
    async fn purge(&self, request: Request<v1::PurgeRequest>) -> Result<Response<v1::PurgeReply>, Status> {
        let key = key(request.metadata());
        let answer = verbs::purge(&self.0, key.as_deref(), request.into_inner()).await;
        answer
            .map(Response::new)
            .map_err(|refusal| errors::status(&refusal))
    }
    async fn check_adapter(
        &self,
        request: Request<v1::CheckAdapterRequest>,
    ) -> Result<Response<v1::CheckAdapterReply>, Status> {
        let key = key(request.metadata());
        let answer = verbs::check_adapter(&self.0, key.as_deref(), request.into_inner()).await;
        answer
            .map(Response::new)
            .map_err(|refusal| errors::status(&refusal))
    }
}
