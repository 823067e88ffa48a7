//! The columns of records, and the builders of their arrays.

mod binary;
mod column;
mod common;
mod headers;
mod record_columns;
mod row_columns;
mod runs;
mod validity;

pub use column::{Column, fields};
pub use record_columns::{Constants, RecordColumns};
