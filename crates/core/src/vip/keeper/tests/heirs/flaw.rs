//! Rules left out, one at a time: the model has to notice each of them.

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A holder gives an address away by writing the object, as it is done today.
    GiveByObject,
    /// A holder lets go of an address by writing the object.
    ReleaseByObject,
    /// A holder that is silent loses addresses by writes of the objects; its term goes on.
    TakeWithoutEnd,
    /// The end of a term is written whatever version the lease has.
    EndUnguarded,
    /// Objects are written whatever version they have.
    TakeUnguarded,
    /// An heir serves at once.
    HeirWithoutList,
    /// An heir goes by deeds of which it heard after it had asked for the list.
    ListBeforeDeed,
    /// An heir only looks whether the object is not ahead of it.
    CountInsteadOfChain,
    /// A node goes on in a term that others have ended.
    GoOnAfterEnd,
    /// A node that begins a term drops the deeds of the one before.
    BeginWithoutDeeds,
    /// A node drops deeds that objects have not caught up with.
    DropDeedsEarly,
    /// Whoever finds a term ended adds heirs to it.
    NameHeirsLater,
    /// A deed is written while the kernel may still speak.
    GiveWhileSpeaking,
    /// A deed whose write had no answer is taken back, without another write.
    TakeBackDeed,
    /// Clocks are thought to run at the same speed.
    NoMargin,
    /// A new process serves by what its watches show at first.
    BirthWithoutList,
    /// A deed from an ended term counts as given when the next term has begun.
    TrustOldDeeds,
    /// The controller frees what the object shows to be of an ended term.
    FreeByObject,
}

pub const ALL: [Flaw; 18] = [
    Flaw::GiveByObject,
    Flaw::ReleaseByObject,
    Flaw::TakeWithoutEnd,
    Flaw::EndUnguarded,
    Flaw::TakeUnguarded,
    Flaw::HeirWithoutList,
    Flaw::ListBeforeDeed,
    Flaw::CountInsteadOfChain,
    Flaw::GoOnAfterEnd,
    Flaw::BeginWithoutDeeds,
    Flaw::DropDeedsEarly,
    Flaw::NameHeirsLater,
    Flaw::GiveWhileSpeaking,
    Flaw::TakeBackDeed,
    Flaw::NoMargin,
    Flaw::BirthWithoutList,
    Flaw::TrustOldDeeds,
    Flaw::FreeByObject,
];
