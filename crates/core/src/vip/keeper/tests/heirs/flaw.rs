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
    /// A node acts upon a deed of its own before the lease has it.
    TrustUnwrittenDeeds,
    /// The controller frees what the object shows to be of an ended term.
    FreeByObject,
}

/// Each of them, and a life in which it does harm; others are tried should that one be
/// another by now.
pub const IN_LIVES: [(Flaw, u64); 16] = [
    (Flaw::GiveByObject, 0),
    (Flaw::ReleaseByObject, 0),
    (Flaw::TakeWithoutEnd, 0),
    (Flaw::EndUnguarded, 0),
    (Flaw::TakeUnguarded, 0),
    (Flaw::HeirWithoutList, 0),
    (Flaw::GoOnAfterEnd, 0),
    (Flaw::BeginWithoutDeeds, 0),
    (Flaw::DropDeedsEarly, 0),
    (Flaw::NameHeirsLater, 0),
    (Flaw::GiveWhileSpeaking, 0),
    (Flaw::TakeBackDeed, 0),
    (Flaw::NoMargin, 0),
    (Flaw::BirthWithoutList, 0),
    (Flaw::TrustUnwrittenDeeds, 0),
    (Flaw::FreeByObject, 0),
];
