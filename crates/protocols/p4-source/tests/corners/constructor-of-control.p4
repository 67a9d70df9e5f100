// Appendix F an extern is given no control
control C();
extern E {
E(C c); //! type-error
}
