//! What is shipped besides programs: images, the chart, and the manifests that are rendered
//! from it.

mod shipped {
    pub mod chart;
    pub mod images;
}
