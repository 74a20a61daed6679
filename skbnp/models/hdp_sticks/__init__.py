"""The HDP with sticks for corpus and documents."""
