// On a phone, figures of examples are scrolled in a box of their own (skbnp.css).
document.addEventListener("DOMContentLoaded", () => {
  for (const image of document.querySelectorAll("img.sphx-glr-single-img")) {
    const box = document.createElement("div");
    box.className = "wide";
    image.replaceWith(box);
    box.append(image);
  }
});
