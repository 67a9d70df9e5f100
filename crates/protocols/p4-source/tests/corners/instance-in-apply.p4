// 12 and appendix H: a block has no instances
extern E { E(); }
control c() { apply {
E() e; //! invalid
} }
