// P4Runtime: a translated type is `bit<W>` or `string` outside
@p4runtime_translation("a", bit<8>) type bit<9> A;
@p4runtime_translation("a", string) type bit<9> B;
@p4runtime_translation("a", 32) type bit<9> C;
@p4runtime_translation("a", bool) type bit<9> D; //! syntax
