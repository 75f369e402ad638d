//! Why a request was not answered as asked, as JSON.

use std::io;

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::{
    book::{BookError, Refusal},
    counterparties::ArmError,
    git::GitError,
    http::json_response,
    knob::FaultProblem,
};

/// A refusal or a failure.
#[derive(Debug)]
pub struct Problem {
    pub status: StatusCode,
    pub error: String,
    /// Which field is wrong, where it is one.
    pub field: Option<String>,
    /// The words there are, where it is a word.
    pub allowed: Vec<&'static str>,
}

impl Problem {
    /// A problem with no field.
    pub fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self {
            status,
            error: error.into(),
            field: None,
            allowed: Vec::new(),
        }
    }

    /// A field that is wrong.
    pub fn field(field: &str, problem: impl std::fmt::Display) -> Self {
        Self {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            error: format!("{field}: {problem}"),
            field: Some(field.to_owned()),
            allowed: Vec::new(),
        }
    }

    fn failed(error: impl std::fmt::Display) -> Self {
        let error = error.to_string();
        tracing::error!(error, "the lab failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = json!({ "error": self.error });
        if let Some(field) = self.field {
            body["field"] = json!(field);
        }
        if !self.allowed.is_empty() {
            body["allowed"] = json!(self.allowed);
        }
        json_response(self.status, &body)
    }
}

impl From<FaultProblem> for Problem {
    fn from(problem: FaultProblem) -> Self {
        Self {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            error: problem.to_string(),
            field: Some(problem.field.to_owned()),
            allowed: problem.allowed,
        }
    }
}

impl From<ArmError> for Problem {
    fn from(error: ArmError) -> Self {
        match error {
            ArmError::NotHere { .. } | ArmError::Full { .. } => {
                Self::new(StatusCode::CONFLICT, error.to_string())
            }
            error => Self::failed(error),
        }
    }
}

impl From<BookError> for Problem {
    fn from(error: BookError) -> Self {
        match error {
            BookError::Refused(refusal @ Refusal::ConsentUnknown) => {
                Self::new(StatusCode::NOT_FOUND, refusal.to_string())
            }
            BookError::Refused(refusal) => Self::new(StatusCode::CONFLICT, refusal.to_string()),
            error => Self::failed(error),
        }
    }
}

impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        Self::failed(format!("the vendor table cannot be read: {error}"))
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::failed(format!("a record cannot be read: {error}"))
    }
}

impl From<GitError> for Problem {
    fn from(error: GitError) -> Self {
        Self::failed(error)
    }
}

/// A method the path does not take.
pub async fn no_such_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "this path does not take this method",
    )
}
