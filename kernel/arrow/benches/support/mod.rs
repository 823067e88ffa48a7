//! What the benches share: the data they run on, what they compare with, and how they measure.
#![allow(dead_code)] // each bench uses part of it

pub mod batches;
pub mod library;
pub mod measure;
pub mod shapes;
