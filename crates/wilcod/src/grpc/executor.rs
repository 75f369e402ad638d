//! `wilco.v1.Executor`.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use wilco_api::v1;
use wilco_api::v1::executor_server::Executor;

use super::key;
use crate::app::App;
use crate::{errors, verbs};

/// The service.
pub struct Service(pub Arc<App>);

// tonic drops a handler whose caller hangs up. Nothing is lost by that: the engine carries each verb out in a task of
// its own, and the handler only waits for it.
#[tonic::async_trait]
impl Executor for Service {
    async fn prepare(
        &self,
        request: Request<v1::PrepareRequest>,
    ) -> Result<Response<v1::PrepareReply>, Status> {
        let key = key(request.metadata());
        let answer = verbs::prepare(&self.0, key.as_deref(), request.into_inner()).await;
        answer
            .map(Response::new)
            .map_err(|refusal| errors::status(&refusal))
    }

    async fn commit(&self, request: Request<v1::CommitRequest>) -> Result<Response<v1::CommitReply>, Status> {
        let key = key(request.metadata());
        let answer = verbs::commit(&self.0, key.as_deref(), request.into_inner()).await;
        answer
            .map(Response::new)
            .map_err(|refusal| errors::status(&refusal))
    }

    async fn cancel(&self, request: Request<v1::CancelRequest>) -> Result<Response<v1::CancelReply>, Status> {
        let key = key(request.metadata());
        let answer = verbs::cancel(&self.0, key.as_deref(), request.into_inner()).await;
        answer
            .map(Response::new)
            .map_err(|refusal| errors::status(&refusal))
    }

    async fn get_act(
        &self,
        request: Request<v1::GetActRequest>,
    ) -> Result<Response<v1::GetActReply>, Status> {
        let key = key(request.metadata());
        let answer = verbs::get_act(&self.0, key.as_deref(), request.into_inner()).await;
        answer
            .map(Response::new)
            .map_err(|refusal| errors::status(&refusal))
    }

    async fn list_acts(
        &self,
        request: Request<v1::ListActsRequest>,
    ) -> Result<Response<v1::ListActsReply>, Status> {
        let key = key(request.metadata());
        let answer = verbs::list_acts(&self.0, key.as_deref(), request.into_inner()).await;
        answer
            .map(Response::new)
            .map_err(|refusal| errors::status(&refusal))
    }

    async fn get_thread(
        &self,
        request: Request<v1::GetThreadRequest>,
    ) -> Result<Response<v1::GetThreadReply>, Status> {
        let key = key(request.metadata());
        let answer = verbs::get_thread(&self.0, key.as_deref(), request.into_inner()).await;
        answer
            .map(Response::new)
            .map_err(|refusal| errors::status(&refusal))
    }

    async fn list_adapters(
        &self,
        request: Request<v1::ListAdaptersRequest>,
    ) -> Result<Response<v1::ListAdaptersReply>, Status> {
        let key = key(request.metadata());
        let answer = verbs::list_adapters(&self.0, key.as_deref(), &request.into_inner());
        answer
            .map(Response::new)
            .map_err(|refusal| errors::status(&refusal))
    }
}
