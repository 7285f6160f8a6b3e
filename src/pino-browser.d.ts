/** pino without its Node transports: the same build in Node and in workerd. */
declare module 'pino/browser.js' {
  export { pino as default } from 'pino'
}
