// Appendix F a control is given no package
package P();
control c()(P p) { //! type-error
apply { } }
