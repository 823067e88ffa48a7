//! Memory and contexts of a thread.

use std::cell::RefCell;

use kafka_log_format::codec::Compressor;

/// Reusable memory and contexts of a thread.
#[derive(Default)]
pub struct Workspace {
    pub compressor: Compressor,
    /// Records before compression.
    pub plain: Vec<u8>,
}

/// More memory than this is freed after use.
const KEPT_SCRATCH: usize = 16 << 20;

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

/// Calls `work` with the workspace of this thread.
pub fn with_workspace<R>(work: impl FnOnce(&mut Workspace) -> R) -> R {
    WORKSPACE.with_borrow_mut(|workspace| {
        let result = work(workspace);
        workspace.plain.clear();
        workspace.plain.shrink_to(KEPT_SCRATCH);
        result
    })
}
