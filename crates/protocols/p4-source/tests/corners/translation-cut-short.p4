// P4Runtime: a translated type says its type
@p4runtime_translation("a") type bit<9> A; //! syntax
