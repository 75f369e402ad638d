//! The deploy adapter against real counterparties: bare repositories and folders, each with its own record as the judge (the
//! reflog of the branch that is moved, the links of the folder).

mod archives;
mod folder;
mod folder_crash;
mod folder_identity;
mod git;
mod git_failures;
mod git_ways;
mod lines;
mod support;
mod windows;
