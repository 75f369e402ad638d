//! What the unit tests share.

use std::path::{Path, PathBuf};

/// A private folder, removed when the test is over.
pub struct Folder(PathBuf);

impl Folder {
    /// A new one.
    pub fn new() -> Folder {
        let name = data_encoding::HEXLOWER.encode(&crate::random::bytes::<8>().expect("randomness"));
        let path = std::env::temp_dir().join(format!("wilcod-test-{name}"));
        std::fs::create_dir(&path).expect("a temporary folder");
        Folder(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
